//! `fencing serve` counts what it answers, and what becomes of its leases.

use support::cli::{fencing, finish, five, heeding, until};

use super::Door;
use super::client::{Answer, ask};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const LOST: &str = "fencing_leases_lost_total";
const NOT_RENEWED: &str = "fencing_renewals_failed_total";

fn acquire(door: &Door, name: &str, wish: &str) -> Answer {
    ask(door.requests, "POST", &format!("/leases/{name}"), &[JSON], wish)
}

/// Sends it about the lease of this answer.
fn of(door: &Door, lease: &Answer, method: &str) -> Answer {
    let path = format!("/leases/{}", lease.json()["lease_id"].as_str().unwrap());
    ask(door.requests, method, &path, &[], "")
}

#[test]
fn each_answer_is_counted_by_its_status() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = heeding("fencing");
    command.args(["serve", "--leases", "1", "--waiters", "1", "--database"]);
    command.arg(format!("sqlite:{}", folder.path().join("locks.db").display()));
    let door = Door::start(command);
    let counted = |request: &str, status: u16, answer: &Answer| {
        assert_eq!(answer.status, status, "{answer:?}");
        let labels = format!("{{request=\"{request}\",status=\"{status}\"}}");
        door.metric(&format!("fencing_serve_requests_total{labels}"))
    };
    let lease = acquire(&door, "a", r#"{"ttl_ms": 600000}"#);
    assert_eq!(counted("acquire", 201, &lease), 1.0);
    assert_eq!(counted("acquire", 400, &acquire(&door, "a", "{")), 1.0);
    assert_eq!(counted("acquire", 400, &acquire(&door, "a//b", "")), 2.0);
    assert_eq!(counted("acquire", 413, &acquire(&door, "a", &" ".repeat(5000))), 1.0);
    assert_eq!(counted("acquire", 503, &acquire(&door, "b", "")), 1.0);
    assert_eq!(counted("renew", 200, &of(&door, &lease, "PUT")), 1.0);
    assert_eq!(counted("show", 200, &of(&door, &lease, "GET")), 1.0);
    assert_eq!(counted("other", 405, &of(&door, &lease, "PATCH")), 1.0);
    assert_eq!(counted("release", 204, &of(&door, &lease, "DELETE")), 1.0);
    for (method, request) in [("PUT", "renew"), ("GET", "show"), ("DELETE", "release")] {
        assert_eq!(counted(request, 404, &of(&door, &lease, method)), 1.0);
    }
    assert_eq!(counted("other", 404, &ask(door.requests, "GET", "/b", &[], "")), 1.0);
    drop(door);

    let servers = five();
    let door = Door::serve(&servers, &["--waiters", "1"]);
    let lease = acquire(&door, "a", r#"{"ttl_ms": 600000}"#);
    assert_eq!(acquire(&door, "a", "").status, 409);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| acquire(&door, "a", r#"{"wait_ms": 60000}"#));
        until("it waits", || support::redis::waiting(&servers, "a") > 0);
        assert_eq!(acquire(&door, "a", "").status, 429);
        assert_eq!(of(&door, &lease, "DELETE").status, 204);
        assert_eq!(waits.join().unwrap().status, 201);
    });
    for (status, count) in [(201, 2.0), (409, 1.0), (429, 1.0)] {
        let labels = format!("{{request=\"acquire\",status=\"{status}\"}}");
        until("all are counted", || {
            door.metric(&format!("fencing_serve_requests_total{labels}")) == count
        });
    }
    assert_eq!((door.metric(LOST), door.metric(NOT_RENEWED)), (0.0, 0.0));
}

#[test]
fn renewals_that_fail_and_leases_that_are_lost_are_counted() {
    let servers = five();
    let door = Door::serve(&servers, &[]);
    let lease = acquire(&door, "a", r#"{"ttl_ms": 600000}"#);
    servers.iter().take(3).for_each(|server| server.signal("STOP"));
    let failed = of(&door, &lease, "PUT");
    servers.iter().take(3).for_each(|server| server.signal("CONT"));
    assert_eq!(failed.status, 503, "{failed:?}");
    assert!(failed.text().contains("the lease lasts for another 9m"), "{failed:?}");
    assert_eq!((door.metric(NOT_RENEWED), door.metric(LOST)), (1.0, 0.0));
    until("it is renewed again", || of(&door, &lease, "PUT").status == 200);
    let failed = door.metric(NOT_RENEWED);

    // Nobody renews it.
    assert_eq!(acquire(&door, "b", r#"{"ttl_ms": 500}"#).status, 201);
    until("it is over", || door.metric(LOST) == 1.0);
    assert_eq!(of(&door, &lease, "DELETE").status, 204);
    assert_eq!((door.metric(NOT_RENEWED), door.metric(LOST)), (failed, 1.0));
}

/// The client that renews is told of the release by force, and not of servers that do not answer.
fn a_release_by_force_is_named(door: &Door, mut release: std::process::Command) {
    let lease = acquire(door, "a", r#"{"ttl_ms": 600000}"#);
    assert_eq!(lease.status, 201, "{lease:?}");
    release.args(["release", "--resource", "a", "--yes"]);
    let released = finish(release);
    assert_eq!(released.code, Some(0), "{released:?}");
    let over = of(door, &lease, "PUT");
    assert_eq!((over.status, over.json()["type"].as_str()), (404, Some("urn:fencing:no-lease")));
    assert!(over.text().contains("an operator has released it"), "{over:?}");
    until("it is counted", || door.metric(LOST) == 1.0);
    assert_eq!(door.metric(NOT_RENEWED), 0.0);
    assert_eq!(acquire(door, "a", "").status, 201);
}

#[test]
fn a_release_by_force_ends_the_lease_at_its_next_renewal() {
    let servers = five();
    a_release_by_force_is_named(&Door::serve(&servers, &[]), fencing(&servers));

    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let fencing = || {
        let mut command = heeding("fencing");
        command.env("FENCING_DATABASE", &url);
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command
    };
    let mut serve = fencing();
    serve.arg("serve");
    a_release_by_force_is_named(&Door::start(serve), fencing());
}
