use super::probe::*;

/// Checks requests for several locks: each is answered like a request for one, and locks are granted all or none.
pub async fn suite(probe: &Probe) {
    granted_together(probe).await;
    all_or_none(probe).await;
    published_and_renewed(probe).await;
    released(probe).await
}

fn names(of: &str) -> [Resource; 3] {
    ["a", "b", "c"].map(|name| resource(&format!("{of}/{name}")))
}

/// One request for all of these.
fn all(names: &[Resource; 3], part: impl Fn(&Resource) -> Request) -> Request {
    Request::Several(names.iter().map(part).collect())
}

fn each(reply: &Reply) -> Reply {
    Reply::Several(vec![reply.clone(); 3])
}

async fn granted_together(probe: &Probe) {
    let (names, stamp) = (names("several"), probe.stamps().await);
    let acquire_all = |owner| all(&names, |name| acquire(name, owner));
    let grants = |count| each(&probe.grant(stamp(count)));
    let steps = [("free", acquire_all(ALICE), grants(1)), ("again for the same owner", acquire_all(ALICE), grants(1))];
    probe.says(steps).await;
    probe.says(names.iter().map(|name| ("with others", acquire(name, BOB), HELD))).await;
    probe.free(&names, ALICE).await;
    probe.says([("free again", acquire_all(BOB), grants(2))]).await;
    probe.free(&names, BOB).await
}

async fn all_or_none(probe: &Probe) {
    let (names, stamp) = (names("several/one"), probe.stamps().await);
    let acquire_all = || all(&names, |name| acquire(name, ALICE));
    for held in &names {
        let answers = names.iter().map(|name| if name == held { HELD } else { Free });
        let steps = [
            ("free", acquire(held, BOB), probe.grant(stamp(1))),
            ("one is held", acquire_all(), Reply::Several(answers.collect())),
        ];
        probe.says(steps).await;
        let others = names.iter().filter(|other| *other != held);
        probe.says(others.map(|other| ("one was held", release(other, ALICE), NotOwner))).await;
        probe.free([held], BOB).await;
    }
    // What was not granted was not counted.
    probe.says([("others were refused", acquire_all(), each(&probe.grant(stamp(2))))]).await;
    probe.free(&names, ALICE).await
}

async fn published_and_renewed(probe: &Probe) {
    let (names, stamp) = (names("several/publish"), probe.stamps().await);
    let raised = stamp(6);
    let publish_all = |owner, nonce| all(&names, |name| publish(name, owner, nonce, raised));
    let renew_all = || all(&names, |name| lasting(renew(name, ALICE, raised), TTL * 4));
    let steps = [
        ("free", all(&names, |name| acquire(name, ALICE)), each(&probe.grant(stamp(1)))),
        ("of another memory", publish_all(ALICE, Nonce(0xbad)), each(&NotOwner)),
        ("of another owner", publish_all(BOB, probe.nonce), each(&NotOwner)),
        ("of the owner", publish_all(ALICE, probe.nonce), each(&Published)),
        ("of the owner", renew_all(), each(&Renewed)),
    ];
    probe.says(steps).await;
    for name in &names {
        probe.remains(name, TTL..=TTL * 4, "renewed with others").await;
    }
    probe.free(&names, ALICE).await;
    // Each has its own answer.
    let [first, others @ ..] = &names;
    let one = Reply::Several(vec![HELD, Renewed, Renewed]);
    let steps = [
        ("after several were published", acquire(first, BOB), probe.grant(stamp(7))),
        ("another holds one", renew_all(), one),
        ("held", release(first, BOB), Released),
    ];
    probe.says(steps).await;
    probe.free(others, ALICE).await
}

async fn released(probe: &Probe) {
    let (names, stamp) = (names("several/release"), probe.stamps().await);
    let acquire_all = || all(&names, |name| acquire(name, ALICE));
    let grants = |count| each(&probe.grant(stamp(count)));
    let one = Reply::Several(vec![NotOwner, Released, Released]);
    let steps = [
        ("free", acquire_all(), grants(1)),
        ("one of them", release(&names[0], ALICE), Released),
        ("one is free", all(&names, |name| release(name, ALICE)), one),
        ("free", acquire_all(), grants(2)),
        ("held", all(&names, |name| shorten(name, ALICE, TTL / 10)), each(&Released)),
    ];
    probe.says(steps).await;
    for name in &names {
        probe.remains(name, TTL / 20..=TTL / 10, "shortened with others").await;
    }
}
