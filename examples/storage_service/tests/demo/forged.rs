//! A client that makes up its token: it gets a 400, and those with a lease go on.

use super::service::Service;
use support::cli::{five, urls};
use support::http::Answer;

const GIANT: u64 = 999_999_999_999_999;

/// Acquires a lease, uses it up, and returns its token.
fn lease(service: &Service) -> u64 {
    let granted = service.lease("files/report", r#"{"ttl_ms":60000,"wait_ms":20000}"#);
    assert_eq!(granted.status, 201, "{granted:?}");
    assert_eq!(service.release(&granted), 204);
    granted.token()
}

fn refused(answer: Answer) {
    let problem = answer.is(400, "not-issued").json();
    assert_eq!(problem["resource"], "files/report");
    assert_eq!(problem["presented"], GIANT);
}

/// A forged token before the first lease, and one after it, in a write and in a read.
fn forge(service: &[&str]) {
    let service = Service::start(service).ready();
    refused(service.put(GIANT, "forged"));
    let first = lease(&service);
    assert_eq!(service.put(first, "first").status, 204);
    refused(service.put(GIANT, "forged"));
    let header = ("Fencing-Token", &*GIANT.to_string());
    refused(service.send("GET", "/files/report", &[header], ""));
    assert_eq!(service.put(first, "first").status, 204);
    let second = lease(&service);
    assert!(second > first);
    assert_eq!(service.put(second, "second").status, 204);
    assert_eq!(service.put(first, "late").status, 412);
    assert_eq!(service.file(), "second");
}

#[test]
fn with_nodes_in_the_process_or_on_redis_and_with_locks_in_the_database() {
    let nodes = five();
    for place in [&[] as &[&str], &["--redis", &urls(&nodes)], &["--lock", "database"]] {
        forge(place);
    }
}

/// Where leases come from elsewhere nothing can be checked: every token counts, and there are no leases to be had.
#[test]
fn with_locks_elsewhere() {
    let service = Service::start(&["--lock", "elsewhere"]);
    assert_eq!(service.send("POST", "/leases/files/report", &[], "").status, 404);
    assert_eq!(service.put(34, "second").status, 204);
    assert_eq!(service.put(33, "late").status, 412);
    assert_eq!(service.put(GIANT, "any").status, 204);
}
