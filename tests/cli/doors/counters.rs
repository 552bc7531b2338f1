//! `fencing serve` bounds and counts what it answers, and what becomes of its leases.

use support::cli::ask;

use super::*;

const LOST: &str = "fencing_leases_lost_total";
const NOT_RENEWED: &str = "fencing_renewals_failed_total";

fn count(door: &Door, request: &str, status: u16) -> f64 {
    let labels = format!("{{request=\"{request}\",status=\"{status}\"}}");
    door.metric(&format!("fencing_serve_requests_total{labels}"))
}

#[test]
fn each_answer_is_counted_by_its_status() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", folder.path().join("locks.db").display());
    let door = Door::serve(&database, "--leases 1 --longest-ttl 10m");
    let counted = |request: &str, status: u16, answer: &Answer| {
        assert_eq!(answer.status, status, "{answer:?}");
        count(&door, request, status)
    };
    let lease = door.lease("a", 600_000);
    assert_eq!(counted("acquire", 201, &lease), 1.0);
    let wrong = ["{", r#"{"ttl_ms": 600001}"#, r#"{"ttl_ms": 1}"#, r#"{"wait_ms": 60001}"#].map(|wish| ("b", wish));
    let names = ["", "/a", "a//b", "a/../b", "%2e%2e/b", "%ff"].map(|name| (name, ""));
    let wrong = [&wrong[..], &names, &[("b", r#"{"ttl": 1}"#)]].concat();
    for (number, (name, wish)) in (1..).zip(wrong) {
        let answer = door.acquire(name, wish);
        assert_eq!(counted("acquire", 400, &answer), f64::from(number), "{name} {wish}");
    }
    assert_eq!(counted("acquire", 413, &door.acquire("a", &" ".repeat(5000))), 1.0);
    let full = door.acquire("b", "");
    assert_eq!(counted("acquire", 503, &full), 1.0);
    assert_eq!(full.header("retry-after"), Some("1"));
    assert_eq!(counted("renew", 200, &door.of(&lease, "PUT")), 1.0);
    assert_eq!(counted("show", 200, &door.of(&lease, "GET")), 1.0);
    assert_eq!(counted("other", 405, &door.of(&lease, "PATCH")), 1.0);
    assert_eq!(counted("release", 204, &door.of(&lease, "DELETE")), 1.0);
    for (method, request) in [("PUT", "renew"), ("GET", "show"), ("DELETE", "release")] {
        assert_eq!(counted(request, 404, &door.of(&lease, method)), 1.0);
    }
    assert_eq!(counted("other", 404, &door.get("/b")), 1.0);
    // A place is free again.
    assert_eq!(door.metric("fencing_serve_leases"), 0.0);

    let (servers, door) = served("--waiters 1");
    let lease = door.lease("a", 600_000);
    assert_eq!(door.acquire("a", "").status, 409);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| door.acquire("a", r#"{"wait_ms": 60000}"#));
        until("it waits", || support::redis::waiting(&servers, "a") > 0);
        let more = door.acquire("a", r#"{"wait_ms": 60000}"#);
        assert_eq!((more.status, more.header("retry-after")), (429, Some("1")), "{more:?}");
        assert_eq!(door.of(&lease, "DELETE").status, 204);
        assert_eq!(waits.join().unwrap().status, 201);
    });
    for (status, times) in [(201, 2.0), (409, 1.0), (429, 1.0)] {
        until("all are counted", || count(&door, "acquire", status) == times);
    }
    assert_eq!((door.metric(LOST), door.metric(NOT_RENEWED)), (0.0, 0.0));
}

#[test]
fn renewals_that_fail_and_leases_that_are_lost_are_counted() {
    let (servers, door) = served("");
    let lease = door.lease("a", 600_000);
    servers.iter().take(3).for_each(|server| server.signal("STOP"));
    let failed = door.of(&lease, "PUT");
    servers.iter().take(3).for_each(|server| server.signal("CONT"));
    assert_eq!(failed.status, 503, "{failed:?}");
    assert!(failed.text().contains("the lease lasts for another 9m"), "{failed:?}");
    assert_eq!((door.metric(NOT_RENEWED), door.metric(LOST)), (1.0, 0.0));
    until("it is renewed again", || door.of(&lease, "PUT").status == 200);
    let failed = door.metric(NOT_RENEWED);

    // Nobody renews it.
    door.lease("b", 8000);
    until("it is over", || door.metric(LOST) == 1.0);
    assert_eq!(door.of(&lease, "DELETE").status, 204);
    assert_eq!((door.metric(NOT_RENEWED), door.metric(LOST)), (failed, 1.0));
}

/// The client that renews is told of the release by force, and not of servers that do not answer.
fn a_release_by_force_is_named(place: &(impl Place + ?Sized)) {
    let door = Door::serve(place, "");
    let lease = door.lease("a", 600_000);
    let released = ask(place, "release --node-budget 5s --resource a --yes");
    assert_eq!(released.code, Some(0), "{released:?}");
    let over = door.of(&lease, "PUT").is(409, "superseded");
    assert!(over.text().contains("an operator has released it"), "{over:?}");
    until("it is counted", || door.metric(LOST) == 1.0);
    assert_eq!(door.metric(NOT_RENEWED), 0.0);
    assert_eq!(door.acquire("a", "").status, 201);
}

#[test]
fn a_release_by_force_ends_the_lease_at_its_next_renewal() {
    a_release_by_force_is_named(&five());
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", folder.path().join("locks.db").display());
    a_release_by_force_is_named(&database);
}
