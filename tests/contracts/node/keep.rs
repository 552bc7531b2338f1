use super::probe::*;

pub async fn suite(probe: &Probe) {
    renewal(probe).await;
    healing(probe).await;
    resumed(probe).await;
    retired(probe).await;
    released(probe).await;
    shortened(probe).await
}

async fn renewal(probe: &Probe) {
    let (name, stamp) = (resource("renew"), probe.stamps().await);
    let renewal = |owner| renew(&name, owner, stamp(1));
    probe.granted(&name, ALICE).await;
    probe.says([("for the owner", lasting(renewal(ALICE), TTL * 4), Renewed)]).await;
    probe.remains(&name, TTL..=TTL * 4, "renewed for longer").await;
    probe.is_out(TTL * 3..=TTL * 4, "after a renewal").await;
    let steps = [
        ("for another owner", renewal(BOB), HELD),
        ("by the owner", release(&name, ALICE), Released),
        ("after a renewal", acquire(&name, BOB), probe.grant(stamp(2))),
        ("by the next owner", release(&name, BOB), Released),
    ];
    probe.says(steps).await
}

async fn healing(probe: &Probe) {
    let (name, stamp) = (resource("heal"), probe.stamps().await);
    let renewal = || renew(&name, ALICE, stamp(1));
    let grant = |count| probe.grant(stamp(count));
    let steps = [
        ("free", acquire(&name, ALICE), grant(1)),
        ("held", release(&name, ALICE), Released),
        ("what is missing", renewal(), Renewed),
        ("healed", acquire(&name, BOB), HELD),
        ("healed", release(&name, ALICE), Released),
        ("after healing", acquire(&name, BOB), grant(2)),
        ("what another holds since", renewal(), HELD),
        ("held", release(&name, BOB), Released),
        ("what another has held since", renewal(), NotOwner),
        ("after that", acquire(&name, ALICE), grant(3)),
        ("held", release(&name, ALICE), Released),
    ];
    probe.says(steps).await
}

async fn resumed(probe: &Probe) {
    let (name, stamp) = (resource("resume"), probe.stamps().await);
    let resume = |owner, least| Request::Resume { resource: name.clone(), owner, least, ttl: TTL * 2 };
    let always = Duration::ZERO;
    let steps = [
        ("what was never held", resume(ALICE, always), NotOwner),
        ("free", acquire(&name, ALICE), probe.grant(stamp(1))),
        ("what does not last for longer", resume(ALICE, TTL), NotOwner),
        ("for another owner", resume(BOB, always), NotOwner),
        ("for the owner", resume(ALICE, TTL / 2), Renewed),
    ];
    probe.says(steps).await;
    probe.remains(&name, TTL..=TTL * 2, "resumed").await;
    let steps = [
        ("resumed", acquire(&name, BOB), HELD),
        ("by the owner", release(&name, ALICE), Released),
        ("what was released", resume(ALICE, always), NotOwner),
        ("after that", acquire(&name, BOB), probe.grant(stamp(2))),
        ("what another holds", resume(ALICE, always), NotOwner),
        ("by the next owner", release(&name, BOB), Released),
    ];
    probe.says(steps).await
}

/// A lease that several processes renew is over for all of them on each node that its release has reached.
async fn retired(probe: &Probe) {
    let (name, stamp) = (resource("retire"), probe.stamps().await);
    let renewal = |count| renew(&name, ALICE, stamp(count));
    let grant = |count| probe.grant(stamp(count));
    let steps = [
        ("free", acquire(&name, ALICE), grant(1)),
        ("held", retire(&name, ALICE, stamp(1)), Released),
        ("what was retired", renewal(1), NotOwner),
        ("once more", retire(&name, ALICE, stamp(1)), NotOwner),
        ("after that", acquire(&name, BOB), grant(3)),
        ("what another holds", retire(&name, ALICE, stamp(1)), NotOwner),
        ("held", release(&name, BOB), Released),
        ("later", acquire(&name, ALICE), grant(4)),
        ("held", release(&name, ALICE), Released),
        // The node had lost the lock before.
        ("what is missing", retire(&name, ALICE, stamp(4)), NotOwner),
        ("what was retired", renewal(4), NotOwner),
        ("what has a later count", retire(&name, ALICE, stamp(2)), NotOwner),
        ("after that", acquire(&name, BOB), grant(6)),
        ("held", release(&name, BOB), Released),
    ];
    probe.says(steps).await;
    // The node has lost its state since the lease was granted: it is in a later era, and has no count.
    let (name, before) = (resource("retire later"), Stamp { era: stamp(0).era - 1, count: 7 });
    let steps = [
        ("what is missing", retire(&name, ALICE, before), NotOwner),
        ("what was retired", renew(&name, ALICE, before), NotOwner),
        ("after that", acquire(&name, BOB), grant(1)),
        ("held", release(&name, BOB), Released),
    ];
    probe.says(steps).await
}

async fn released(probe: &Probe) {
    let (name, stamp) = (resource("release"), probe.stamps().await);
    let grant = |count| probe.grant(stamp(count));
    let steps = [
        ("what is free", release(&name, ALICE), NotOwner),
        ("free", acquire(&name, ALICE), grant(1)),
        ("for another owner", release(&name, BOB), NotOwner),
        ("another released it", acquire(&name, BOB), HELD),
        ("held", release(&name, ALICE), Released),
        ("twice", release(&name, ALICE), NotOwner),
        ("free", acquire(&name, BOB), grant(2)),
        ("what another holds since", release(&name, ALICE), NotOwner),
        ("released by the last holder", acquire(&name, ALICE), HELD),
        ("held", release(&name, BOB), Released),
    ];
    probe.says(steps).await
}

/// Checks a release that leaves the lock closed for the rest of its time.
async fn shortened(probe: &Probe) {
    let (name, rest) = (resource("shorten"), TTL / 10);
    probe.says([("what is free", shorten(&name, ALICE, rest), NotOwner)]).await;
    probe.granted(&name, ALICE).await;
    probe.says([("for another owner", shorten(&name, BOB, rest), NotOwner)]).await;
    probe.remains(&name, rest * 2..=TTL, "shortened by another").await;
    probe.says([("for the owner", shorten(&name, ALICE, rest), Released)]).await;
    let (resource, stamp) = (name.clone(), probe.stamps().await(1));
    let steps = [
        ("what was shortened", Request::Resume { resource, owner: ALICE, least: Duration::ZERO, ttl: TTL }, NotOwner),
        ("what was shortened", renew(&name, ALICE, stamp), HELD),
        ("what was shortened", release(&name, ALICE), NotOwner),
        ("once more", shorten(&name, ALICE, Duration::ZERO), NotOwner),
        ("what was shortened", retire(&name, ALICE, stamp), NotOwner),
    ];
    probe.says(steps).await;
    probe.remains(&name, rest / 2..=rest, "shortened").await;
    probe.is_out(rest / 2..=rest, "after a lock was shortened").await;
    let (name, brief) = (crate::resource("shorten/brief"), Duration::from_millis(200));
    probe.granted(&name, ALICE).await;
    probe.says([("briefly", shorten(&name, ALICE, brief), Released)]).await;
    assert_eq!(probe.in_time(acquire(&name, BOB)).await.count, 2, "acquire after the rest");
    let steps = [
        ("what another holds since", shorten(&name, ALICE, rest), NotOwner),
        ("to nothing", shorten(&name, BOB, Duration::ZERO), Released),
    ];
    probe.says(steps).await;
    probe.granted(&name, ALICE).await;
    probe.free([&name], ALICE).await
}
