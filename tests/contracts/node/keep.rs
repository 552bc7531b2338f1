use std::time::Duration;

use fencing_protocol::{Owner, Reply, Request, Resource};

use super::probe::{ALICE, BOB, Probe, TTL};
use crate::resource;

/// Checks renewal and release.
pub async fn suite(probe: &Probe) {
    renewal(probe).await;
    healing(probe).await;
    release(probe).await;
    shorten(probe).await
}

async fn renewal(probe: &Probe) {
    let resource = resource("renew");
    let stamp = probe.granted(&resource, ALICE).await;
    let reply = probe.renew(&resource, ALICE, stamp, TTL * 4).await;
    assert_eq!(reply, Reply::Renewed, "renew for the owner");
    let remaining = probe.held(&resource, "renewed").await;
    let extended = remaining > TTL && remaining <= TTL * 4;
    assert!(extended, "remaining after a renewal for longer: {remaining:?}");
    let longest = probe.state().await.longest;
    let right = longest > TTL * 3 && longest <= TTL * 4;
    assert!(right, "what may be out after a renewal: {longest:?}");
    let reply = probe.renew(&resource, BOB, stamp, TTL).await;
    let held = matches!(reply, Reply::Held { shared: false, .. });
    assert!(held, "renew for another owner: {reply:?}");
    probe.free(&resource, ALICE).await;
    let next = probe.granted(&resource, BOB).await;
    assert_eq!(next.count, stamp.count + 1, "acquire after a renewal");
    probe.free(&resource, BOB).await
}

async fn healing(probe: &Probe) {
    let resource = resource("heal");
    let stamp = probe.granted(&resource, ALICE).await;
    probe.free(&resource, ALICE).await;
    let reply = probe.renew(&resource, ALICE, stamp, TTL).await;
    assert_eq!(reply, Reply::Renewed, "renew what is missing");
    probe.held(&resource, "healed").await;
    probe.free(&resource, ALICE).await;
    let next = probe.granted(&resource, BOB).await;
    assert_eq!(next.count, stamp.count + 1, "acquire after healing");
    let reply = probe.renew(&resource, ALICE, stamp, TTL).await;
    let held = matches!(reply, Reply::Held { shared: false, .. });
    assert!(held, "renew what another holds since: {reply:?}");
    probe.free(&resource, BOB).await;
    let reply = probe.renew(&resource, ALICE, stamp, TTL).await;
    assert_eq!(reply, Reply::NotOwner, "renew what another has held since");
    let last = probe.granted(&resource, ALICE).await;
    assert_eq!(last.count, next.count + 1, "acquire after that");
    probe.free(&resource, ALICE).await
}

async fn release(probe: &Probe) {
    let resource = resource("release");
    let refused = |case, reply| assert_eq!(reply, Reply::NotOwner, "{case}");
    refused("release what is free", probe.release(&resource, ALICE).await);
    probe.granted(&resource, ALICE).await;
    refused("release for another owner", probe.release(&resource, BOB).await);
    probe.held(&resource, "another released it").await;
    probe.free(&resource, ALICE).await;
    refused("release twice", probe.release(&resource, ALICE).await);
    probe.granted(&resource, BOB).await;
    refused("release what another holds since", probe.release(&resource, ALICE).await);
    probe.held(&resource, "released by the last holder").await;
    probe.free(&resource, BOB).await
}

/// Checks a release that leaves the lock closed for the rest of its time.
async fn shorten(probe: &Probe) {
    let (resource, rest) = (resource("shorten"), Duration::from_secs(90));
    let refused = |case, reply| assert_eq!(reply, Reply::NotOwner, "{case}");
    refused("shorten what is free", ends_in(probe, &resource, ALICE, rest).await);
    probe.granted(&resource, ALICE).await;
    refused("shorten for another owner", ends_in(probe, &resource, BOB, rest).await);
    let remaining = probe.held(&resource, "another shortened it").await;
    assert!(remaining > rest, "remaining after another shortened it: {remaining:?}");
    // A rest that is longer than the lock lasts changes nothing.
    for (asked, most) in [(rest, rest), (TTL, rest)] {
        let reply = ends_in(probe, &resource, ALICE, asked).await;
        assert_eq!(reply, Reply::Released, "shorten for the owner");
        let remaining = probe.held(&resource, "shortened").await;
        let right = remaining > rest / 2 && remaining <= most;
        assert!(right, "remaining of a lock that was shortened: {remaining:?}");
        let longest = probe.state().await.longest;
        let right = longest > rest / 2 && longest <= most;
        assert!(right, "what may be out after a lock was shortened: {longest:?}");
    }
    let brief = Duration::from_millis(200);
    let reply = ends_in(probe, &resource, ALICE, brief).await;
    assert_eq!(reply, Reply::Released, "shorten once more");
    let stamp = probe.in_time(&resource, BOB).await;
    assert_eq!(stamp.count, 2, "acquire after the rest");
    refused("shorten what another holds since", ends_in(probe, &resource, ALICE, rest).await);
    let reply = ends_in(probe, &resource, BOB, Duration::ZERO).await;
    assert_eq!(reply, Reply::Released, "shorten to nothing");
    probe.granted(&resource, ALICE).await;
    probe.free(&resource, ALICE).await
}

async fn ends_in(probe: &Probe, resource: &Resource, owner: Owner, rest: Duration) -> Reply {
    probe.ask(Request::Shorten { resource: resource.clone(), owner, rest }).await
}
