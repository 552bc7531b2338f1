use super::probe::*;

pub async fn suite(probe: &Probe) {
    together(probe).await;
    alone(probe).await;
    published(probe).await;
    draining(probe).await;
    healing(probe).await;
    beside(probe).await;
    shortened(probe).await;
    parts(probe).await
}

fn drain(resource: &Resource, lasting: Duration) -> Request {
    Request::Drain { resource: resource.clone(), lasting }
}

/// Only an exclusive lock is resumed.
fn resume(resource: &Resource) -> Request {
    Request::Resume { resource: resource.clone(), owner: ALICE, least: Duration::ZERO, ttl: TTL }
}

async fn together(probe: &Probe) {
    let (name, stamp) = (resource("shared"), probe.stamps().await);
    for count in 1..=2 {
        let granted = || probe.grant(stamp(count));
        let steps = [
            ("first", share(&name, ALICE), granted()),
            ("again", share(&name, ALICE), granted()),
            ("joins", share(&name, BOB), granted()),
            ("again", share(&name, BOB), granted()),
            ("for one of two", resume(&name), NotOwner),
            ("a part", release(&name, ALICE), Released),
            ("a part twice", release(&name, ALICE), NotOwner),
        ];
        probe.says(steps).await;
        probe.is_out(TTL / 2..=TTL, "after one of two has left").await;
        probe.free([&name], BOB).await;
    }
    probe.is_out(NOTHING_LONG, "after all have left").await;
}

async fn alone(probe: &Probe) {
    let (name, stamp) = (resource("shared/alone"), probe.stamps().await);
    let steps = [
        ("free", acquire(&name, CAROL), probe.grant(stamp(1))),
        ("one holds it alone", share(&name, ALICE), HELD),
        ("one holds it alone", renew_share(&name, ALICE, stamp(1)), HELD),
        ("held", release(&name, CAROL), Released),
        ("after one held it alone", share(&name, ALICE), probe.grant(stamp(2))),
        ("joins", share(&name, BOB), probe.grant(stamp(2))),
    ];
    probe.says(steps).await;
    for left in [ALICE, BOB] {
        probe.remains(&name, Duration::from_millis(1)..=TTL, "shared").await;
        let steps = [
            ("what is shared", acquire(&name, CAROL), SHARED),
            ("alone, what is shared", renew(&name, CAROL, stamp(1)), SHARED),
            ("without a part", publish(&name, CAROL, probe.nonce, stamp(9)), NotOwner),
            ("a part", release(&name, left), Released),
        ];
        probe.says(steps).await;
    }
    let steps = [
        ("after it was shared", acquire(&name, CAROL), probe.grant(stamp(3))),
        ("held", release(&name, CAROL), Released),
    ];
    probe.says(steps).await
}

async fn published(probe: &Probe) {
    let (name, stamp) = (resource("shared/publish"), probe.stamps().await);
    let publishes = || publish(&name, ALICE, probe.nonce, stamp(8));
    let steps = [
        ("free", share(&name, ALICE), probe.grant(stamp(1))),
        ("for a part", publishes(), Published),
        ("what was published", share(&name, BOB), probe.grant(stamp(8))),
        ("a part", release(&name, ALICE), Released),
        ("for a part that has left", publishes(), NotOwner),
        ("a part", release(&name, BOB), Released),
    ];
    probe.says(steps).await
}

async fn draining(probe: &Probe) {
    let (name, stamp) = (resource("shared/draining"), probe.stamps().await);
    let steps = [
        ("free", drain(&name, TTL), Draining),
        ("free", share(&name, ALICE), probe.grant(stamp(1))),
        ("a part", drain(&name, TTL), Draining),
        ("a part", drain(&name, Duration::from_secs(1)), Draining),
    ];
    probe.says(steps).await;
    let reply = probe.ask(share(&name, BOB)).await;
    // A drain lasts for 20 s at most, and a shorter one does not end it.
    let drains = Duration::from_secs(10)..=Duration::from_secs(20);
    let held = matches!(&reply, Reply::Held { shared: false, remaining, .. } if drains.contains(remaining));
    assert!(held, "share what drains: {reply:?}");
    let brief = drain(&name, Duration::from_millis(50));
    let steps = [
        ("a part of what drains", renew_share(&name, ALICE, stamp(1)), Renewed),
        ("the last part", release(&name, ALICE), Released),
        ("what has drained", share(&name, BOB), HELD),
        ("what has drained", acquire(&name, CAROL), probe.grant(stamp(2))),
        ("held", release(&name, CAROL), Released),
        // The one that waited has had its turn.
        ("free", share(&name, BOB), probe.grant(stamp(3))),
        ("a part", brief, Draining),
    ];
    probe.says(steps).await;
    probe.in_time(share(&name, ALICE)).await;
    let steps = [
        ("a part", release(&name, ALICE), Released),
        ("a part", release(&name, BOB), Released),
        // What is left of the drain is nobody's part.
        ("the first after a drain", share(&name, ALICE), probe.grant(stamp(4))),
        ("a part", release(&name, ALICE), Released),
    ];
    probe.says(steps).await
}

async fn healing(probe: &Probe) {
    let (name, stamp) = (resource("shared/heal"), probe.stamps().await);
    let steps = [
        ("free", acquire(&name, CAROL), probe.grant(stamp(1))),
        ("held", release(&name, CAROL), Released),
        ("a part that is missing", renew_share(&name, ALICE, stamp(6)), Renewed),
        ("joins a part that was set again", share(&name, BOB), probe.grant(stamp(6))),
        ("an older part that is missing", renew_share(&name, CAROL, stamp(1)), NotOwner),
        ("a part", release(&name, ALICE), Released),
        ("a part", release(&name, BOB), Released),
        ("after healing", acquire(&name, CAROL), probe.grant(stamp(7))),
        ("held", release(&name, CAROL), Released),
    ];
    probe.says(steps).await
}

/// Checks that one lock of a list that others share keeps all of them from being granted.
async fn beside(probe: &Probe) {
    let names = [resource("shared/free"), resource("shared/beside")];
    let [_, shared] = &names;
    let all = || Request::Several(names.iter().map(|name| acquire(name, CAROL)).collect());
    let first = probe.stamps().await(1);
    let next = Stamp { count: 2, ..first };
    let granted = [first, next].map(|stamp| probe.grant(stamp)).to_vec();
    let steps = [
        ("free", share(shared, ALICE), probe.grant(first)),
        ("one is shared", all(), Reply::Several(vec![Free, SHARED])),
        ("a part", drain(shared, TTL), Draining),
        ("a part", release(shared, ALICE), Released),
        ("one was shared", all(), Reply::Several(granted)),
    ];
    probe.says(steps).await;
    probe.free(&names, CAROL).await
}

/// Checks a release that leaves a part in place for the rest of its time.
async fn shortened(probe: &Probe) {
    let (name, rest) = (resource("shared/shorten"), Duration::from_secs(90));
    let first = probe.grant(probe.stamps().await(1));
    let steps = [("free", share(&name, ALICE), first.clone()), ("without a part", shorten(&name, BOB, rest), NotOwner)];
    probe.says(steps).await;
    for asked in [rest, TTL] {
        probe.says([("a part", shorten(&name, ALICE, asked), Released)]).await;
        probe.says([("what is shared", acquire(&name, CAROL), SHARED)]).await;
        probe.remains(&name, rest / 2..=rest, "shortened").await;
        probe.is_out(rest / 2..=rest, "after a part was shortened").await;
    }
    let steps = [
        ("joins a part that was shortened", share(&name, BOB), first),
        ("one part of two", shorten(&name, ALICE, Duration::from_millis(1)), Released),
    ];
    probe.says(steps).await;
    probe.is_out(rest..=TTL, "after one of two parts was shortened").await;
    probe.free([&name], BOB).await;
    assert_eq!(probe.in_time(acquire(&name, CAROL)).await.count, 2, "acquire after the rest");
    probe.free([&name], CAROL).await
}

async fn parts(probe: &Probe) {
    let (name, ttl) = (resource("shared/parts"), Duration::from_millis(200));
    let brief = || lasting(share(&name, ALICE), ttl);
    probe.ask(brief()).await;
    probe.ask(share(&name, BOB)).await;
    for _ in 0..200 {
        sleep(Duration::from_millis(10)).await;
        if probe.ask(release(&name, ALICE)).await == NotOwner {
            let ended = ("one of two parts has ended", acquire(&name, CAROL), SHARED);
            probe.says([ended]).await;
            return probe.free([&name], BOB).await;
        }
        // The machine was slow: it had not ended.
        probe.ask(brief()).await;
        sleep(ttl).await;
    }
    panic!("a part long after its end: held")
}
