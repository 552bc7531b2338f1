//! A client that makes up its token: it gets a 400, and those with a lease go on.

use sqlx::ConnectOptions;

use super::service::{Answer, Service};
use support::cli::{five, urls};
use support::postgres::PostgresServer;

const GIANT: u64 = 999_999_999_999_999;

/// Acquires a lease, uses it up, and returns its token.
fn lease(service: &Service) -> u64 {
    let granted = service.send("POST", "/leases/files/report", &[], b"");
    assert_eq!(granted.status, 201, "{granted:?}");
    let granted = granted.json();
    let path = format!("/leases/{}", granted["lease_id"].as_str().unwrap());
    assert_eq!(service.send("DELETE", &path, &[], b"").status, 204);
    granted["token"].as_u64().unwrap()
}

fn refused(answer: &Answer) {
    assert_eq!(answer.status, 400, "{answer:?}");
    let problem = answer.json();
    assert_eq!(problem["type"], "urn:fencing:not-issued");
    assert_eq!(problem["resource"], "files/report");
    assert_eq!(problem["presented"], GIANT);
}

/// A forged token before the first lease, and one after it, in a write and in a read.
fn forge(service: &[&str]) {
    let service = Service::start(service).ready();
    refused(&service.put(GIANT, "forged"));
    let first = lease(&service);
    assert_eq!(service.put(first, "first").status, 204);
    refused(&service.put(GIANT, "forged"));
    let header = format!("Fencing-Token: {GIANT}");
    refused(&service.send("GET", "/files/report", &[&header], b""));
    assert_eq!(service.put(first, "first").status, 204);
    let second = lease(&service);
    assert!(second > first);
    assert_eq!(service.put(second, "second").status, 204);
    assert_eq!(service.put(first, "late").status, 412);
    assert_eq!(service.send("GET", "/files/report", &[], b"").body, "second");
}

#[test]
fn with_nodes_in_the_process() {
    forge(&[]);
}

#[test]
fn with_redis_nodes() {
    let nodes = five();
    forge(&["--redis", &urls(&nodes)]);
}

#[test]
fn with_locks_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}/files.db", folder.path().display());
    forge(&["--lock", "database", "--database", &database]);
}

#[tokio::test]
async fn with_locks_in_postgresql() {
    let postgres = PostgresServer::start();
    let database = postgres.database().await.to_url_lossy().to_string();
    forge(&["--lock", "database", "--database", &database]);
}

/// Where leases come from elsewhere nothing can be checked: every token counts, and there are no
/// leases to be had.
#[test]
fn with_locks_elsewhere() {
    let service = Service::start(&["--lock", "elsewhere"]);
    assert_eq!(service.send("POST", "/leases/files/report", &[], b"").status, 404);
    assert_eq!(service.put(34, "second").status, 204);
    assert_eq!(service.put(33, "late").status, 412);
    assert_eq!(service.put(GIANT, "any").status, 204);
}
