use std::time::Duration;

use fencing_protocol::{Mode, Owner, Reply, Request, Resource, Stamp};
use tokio::time::sleep;

use super::probe::{ALICE, BOB, Probe, TTL};
use crate::resource;

/// An owner that asks for the lock alone.
const CAROL: Owner = Owner(0xca401);

/// Checks locks that several owners share.
pub async fn suite(probe: &Probe) {
    together(probe).await;
    alone(probe).await;
    draining(probe).await;
    healing(probe).await;
    beside(probe).await;
    shortened(probe).await;
    parts(probe).await
}

impl Probe {
    async fn share(&self, resource: &Resource, owner: Owner) -> Reply {
        self.ask(Request::Acquire {
            mode: Mode::Shared,
            resource: resource.clone(),
            owner,
            ttl: TTL,
        })
        .await
    }

    /// Shares a lock that nobody holds alone.
    async fn shared(&self, resource: &Resource, owner: Owner) -> Stamp {
        match self.share(resource, owner).await {
            Reply::Granted { stamp, nonce, .. } if nonce == self.nonce => stamp,
            other => panic!("share {resource}: {other:?}"),
        }
    }

    async fn renew_share(&self, resource: &Resource, owner: Owner, stamp: Stamp) -> Reply {
        let (resource, token) = (resource.clone(), stamp.token().unwrap());
        self.ask(Request::Renew { mode: Mode::Shared, resource, owner, token, ttl: TTL }).await
    }

    async fn drain(&self, resource: &Resource, lasting: Duration) {
        let reply = self.ask(Request::Drain { resource: resource.clone(), lasting }).await;
        assert_eq!(reply, Reply::Draining, "drain");
    }
}

fn is_shared(reply: &Reply) -> bool {
    matches!(reply, Reply::Held { shared: true, remaining, .. } if !remaining.is_zero() && *remaining <= TTL)
}

async fn together(probe: &Probe) {
    let (resource, era) = (resource("shared"), probe.state().await.era);
    for count in 1..=2 {
        let wanted = Stamp { era, count };
        for (case, owner) in [("first", ALICE), ("again", ALICE), ("joins", BOB), ("again", BOB)] {
            assert_eq!(probe.shared(&resource, owner).await, wanted, "{case}");
        }
        probe.free(&resource, ALICE).await;
        let reply = probe.release(&resource, ALICE).await;
        assert_eq!(reply, Reply::NotOwner, "release a part twice");
        let longest = probe.state().await.longest;
        assert!(longest > TTL / 2, "one of two has left: {longest:?}");
        probe.free(&resource, BOB).await;
    }
    let longest = probe.state().await.longest;
    let short = Duration::from_secs(60) * 9 / 8;
    assert!(longest <= short, "all have left: {longest:?}");
}

async fn alone(probe: &Probe) {
    let resource = resource("shared/alone");
    let first = probe.granted(&resource, CAROL).await;
    let reply = probe.share(&resource, ALICE).await;
    let held = matches!(reply, Reply::Held { shared: false, .. });
    assert!(held, "share what one holds alone: {reply:?}");
    let reply = probe.renew_share(&resource, ALICE, first).await;
    let held = matches!(reply, Reply::Held { shared: false, .. });
    assert!(held, "renew a part of what one holds alone: {reply:?}");
    probe.free(&resource, CAROL).await;
    let shared = probe.shared(&resource, ALICE).await;
    assert_eq!(shared.count, first.count + 1, "share after one held it alone");
    probe.shared(&resource, BOB).await;
    for left in [ALICE, BOB] {
        let reply = probe.acquire(&resource, CAROL).await;
        assert!(is_shared(&reply), "acquire what is shared: {reply:?}");
        let reply = probe.renew(&resource, CAROL, first, TTL).await;
        assert!(is_shared(&reply), "renew alone what is shared: {reply:?}");
        let raised = Stamp { count: shared.count + 7, ..shared };
        let reply = probe.publish(&resource, CAROL, probe.nonce, raised).await;
        assert_eq!(reply, Reply::NotOwner, "publish for one without a part");
        probe.free(&resource, left).await;
    }
    let next = probe.granted(&resource, CAROL).await;
    assert_eq!(next.count, shared.count + 1, "acquire after it was shared");
    probe.free(&resource, CAROL).await;
    // A part publishes, and those who join get what it has published.
    let shared = probe.shared(&resource, ALICE).await;
    let raised = Stamp { count: shared.count + 7, ..shared };
    let reply = probe.publish(&resource, ALICE, probe.nonce, raised).await;
    assert_eq!(reply, Reply::Published, "publish for a part");
    let joined = probe.shared(&resource, BOB).await;
    assert_eq!(joined, raised, "share what was published");
    probe.free(&resource, ALICE).await;
    let reply = probe.publish(&resource, ALICE, probe.nonce, raised).await;
    assert_eq!(reply, Reply::NotOwner, "publish for a part that has left");
    probe.free(&resource, BOB).await
}

async fn draining(probe: &Probe) {
    let resource = resource("shared/draining");
    probe.drain(&resource, TTL).await;
    let stamp = probe.shared(&resource, ALICE).await;
    probe.drain(&resource, TTL).await;
    probe.drain(&resource, Duration::from_secs(1)).await;
    let reply = probe.share(&resource, BOB).await;
    // A drain lasts for 20 s at most, and a shorter one does not end it.
    let (left, longest) = (Duration::from_secs(10), Duration::from_secs(20));
    let held = matches!(reply, Reply::Held { shared: false, remaining, .. } if remaining > left && remaining <= longest);
    assert!(held, "share what drains: {reply:?}");
    let reply = probe.renew_share(&resource, ALICE, stamp).await;
    assert_eq!(reply, Reply::Renewed, "renew a part of what drains");
    probe.free(&resource, ALICE).await;
    let reply = probe.share(&resource, BOB).await;
    let held = matches!(reply, Reply::Held { shared: false, .. });
    assert!(held, "share what has drained: {reply:?}");
    probe.granted(&resource, CAROL).await;
    probe.free(&resource, CAROL).await;
    // The one that waited has had its turn.
    let before = probe.shared(&resource, BOB).await;
    probe.drain(&resource, Duration::from_millis(50)).await;
    for _ in 0..200 {
        if matches!(probe.share(&resource, ALICE).await, Reply::Granted { .. }) {
            probe.free(&resource, ALICE).await;
            probe.free(&resource, BOB).await;
            // What is left of the drain is nobody's part.
            let next = probe.shared(&resource, ALICE).await;
            assert_eq!(next.count, before.count + 1, "the first after a drain");
            return probe.free(&resource, ALICE).await;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("share long after it has drained: refused")
}

async fn healing(probe: &Probe) {
    let resource = resource("shared/heal");
    let stamp = probe.granted(&resource, CAROL).await;
    probe.free(&resource, CAROL).await;
    let lease = Stamp { count: stamp.count + 5, ..stamp };
    let reply = probe.renew_share(&resource, ALICE, lease).await;
    assert_eq!(reply, Reply::Renewed, "renew a part that is missing");
    let joined = probe.shared(&resource, BOB).await;
    assert_eq!(joined, lease, "join a part that was set again");
    let reply = probe.renew_share(&resource, CAROL, stamp).await;
    assert_eq!(reply, Reply::NotOwner, "renew an older part that is missing");
    probe.free(&resource, ALICE).await;
    probe.free(&resource, BOB).await;
    let next = probe.granted(&resource, CAROL).await;
    assert_eq!(next.count, lease.count + 1, "acquire after healing");
    probe.free(&resource, CAROL).await
}

/// Checks that one lock of a list that others share keeps all of them from being granted.
async fn beside(probe: &Probe) {
    let names = [resource("shared/free"), resource("shared/beside")];
    let part = |name: &Resource| Request::Acquire {
        mode: Mode::Exclusive,
        resource: name.clone(),
        owner: CAROL,
        ttl: TTL,
    };
    let all = || Request::Several(names.iter().map(part).collect());
    let [_, shared] = &names;
    probe.shared(shared, ALICE).await;
    let reply = probe.ask(all()).await;
    let answers = |parts: &[Reply]| matches!(parts, [Reply::Free, one] if is_shared(one));
    let right = matches!(&reply, Reply::Several(parts) if answers(parts));
    assert!(right, "acquire several, one is shared: {reply:?}");
    probe.drain(shared, TTL).await;
    probe.free(shared, ALICE).await;
    let reply = probe.ask(all()).await;
    let granted = |reply: &Reply| matches!(reply, Reply::Granted { .. });
    let right = matches!(&reply, Reply::Several(parts) if parts.iter().all(granted));
    assert!(right, "acquire several, one was shared: {reply:?}");
    for name in &names {
        probe.free(name, CAROL).await;
    }
}

/// Checks a release that leaves a part in place for the rest of its time.
async fn shortened(probe: &Probe) {
    let (resource, rest) = (resource("shared/shorten"), Duration::from_secs(90));
    let shorten = |owner, rest| Request::Shorten { resource: resource.clone(), owner, rest };
    let stamp = probe.shared(&resource, ALICE).await;
    let reply = probe.ask(shorten(BOB, rest)).await;
    assert_eq!(reply, Reply::NotOwner, "shorten for one without a part");
    for asked in [rest, TTL] {
        let reply = probe.ask(shorten(ALICE, asked)).await;
        assert_eq!(reply, Reply::Released, "shorten a part");
        let reply = probe.acquire(&resource, CAROL).await;
        let right = matches!(reply, Reply::Held { shared: true, remaining, .. } if remaining > rest / 2 && remaining <= rest);
        assert!(right, "remaining of a part that was shortened: {reply:?}");
        let longest = probe.state().await.longest;
        let right = longest > rest / 2 && longest <= rest;
        assert!(right, "what may be out after a part was shortened: {longest:?}");
    }
    let joined = probe.shared(&resource, BOB).await;
    assert_eq!(joined, stamp, "join a part that was shortened");
    let reply = probe.ask(shorten(ALICE, Duration::from_millis(1))).await;
    assert_eq!(reply, Reply::Released, "shorten one part of two");
    let longest = probe.state().await.longest;
    assert!(longest > rest, "one of two parts was shortened: {longest:?}");
    probe.free(&resource, BOB).await;
    let next = probe.in_time(&resource, CAROL).await;
    assert_eq!(next.count, stamp.count + 1, "acquire after the rest");
    probe.free(&resource, CAROL).await
}

/// Checks that each part ends by itself.
async fn parts(probe: &Probe) {
    let (resource, ttl) = (resource("shared/parts"), Duration::from_millis(200));
    let share =
        Request::Acquire { mode: Mode::Shared, resource: resource.clone(), owner: ALICE, ttl };
    probe.ask(share).await;
    probe.shared(&resource, BOB).await;
    for _ in 0..200 {
        sleep(Duration::from_millis(10)).await;
        let reply = probe.release(&resource, ALICE).await;
        if reply == Reply::NotOwner {
            let reply = probe.acquire(&resource, CAROL).await;
            assert!(is_shared(&reply), "one of two parts has ended: {reply:?}");
            return probe.free(&resource, BOB).await;
        }
        // The machine was slow: it had not ended.
        let share =
            Request::Acquire { mode: Mode::Shared, resource: resource.clone(), owner: ALICE, ttl };
        probe.ask(share).await;
        sleep(ttl).await;
    }
    panic!("a part long after its end: held")
}
