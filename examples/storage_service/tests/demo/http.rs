//! Files and leases over HTTP, and what becomes of requests when the service ends.

use support::cli::until;
use support::http::{Client, head};
use support::process::runs;

use super::service::Service;

#[test]
fn files_are_kept_behind_the_fence() {
    let service = Service::start(&[]);
    assert_eq!(service.get("/files/report").status, 404);
    assert_eq!(service.put(34, "hello").status, 204);
    let read = service.get("/files/report");
    assert_eq!((read.status, read.text(), read.header("fencing-token")), (200, "hello", Some("34")));
    let stale = service.put(33, "late").is(412, "stale").json();
    assert_eq!((&stale["presented"], &stale["highest"]), (&33.into(), &34.into()));
    assert_eq!(service.send("PUT", "/files/report", &[], "x").status, 428);
    // The same file under another spelling is the same resource.
    let token = [("Fencing-Token", "33")];
    assert_eq!(service.send("PUT", "/files/%72eport", &token, "late").status, 412);
    assert_eq!(service.send("PUT", "/files/%FF", &token, "late").status, 400);
    assert_eq!(service.file(), "hello");
}

#[test]
fn a_file_has_a_mebibyte_at_most() {
    let service = Service::start(&[]);
    let token = [("Fencing-Token", "1")];
    let most = "x".repeat(1 << 20);
    assert_eq!(service.send("PUT", "/files/report", &token, &most).status, 204);
    let more = "x".repeat((1 << 20) + 1);
    assert_eq!(service.send("PUT", "/files/report", &token, &more).status, 413);
    assert_eq!(service.file().len(), most.len());
}

#[test]
fn leases_can_be_played_with_by_hand() {
    let service = Service::start(&[]);
    let granted = service.lease("files/report", r#"{"ttl_ms":60000,"wait_ms":0}"#);
    assert_eq!(granted.status, 201, "{granted:?}");
    let first = granted.json();
    assert_eq!(first["resource"], "files/report");
    assert!(first["valid_for_ms"].as_u64().unwrap() > 50_000);

    let held = service.lease("files/report", "");
    assert_eq!(held.status, 409);
    assert!(held.header("retry-after").is_some(), "{}", held.head);

    assert_eq!(service.release(&granted), 204);
    assert_eq!(service.release(&granted), 404);
    assert!(service.lease("files/report", "").token() > granted.token());

    for bad in ["{", "7", r#"{"ttl_ms":0}"#, r#"{"ttl":5}"#, r#"{"ttl_ms":86400000}"#, r#"{"wait_ms":600000}"#] {
        assert_eq!(service.lease("files/report", bad).status, 400, "{bad}");
    }
    assert_eq!(service.lease("%20x", "").status, 400);
    // A page that a browser on this machine has open.
    for (header, status) in [
        (("Origin", "https://evil.example"), 403),
        (("Sec-Fetch-Site", "cross-site"), 403),
        (("Content-Type", "text/plain"), 415),
    ] {
        assert_eq!(service.send("POST", "/leases/a", &[header], "{}").status, status, "{header:?}");
    }
}

#[test]
fn without_a_quorum_it_is_not_ready_and_grants_nothing() {
    let mut nodes = support::cli::five();
    let urls = support::cli::urls(&nodes);
    let service = Service::start(&["--redis", &urls]).ready();
    nodes.iter_mut().take(3).for_each(support::redis::RedisServer::kill);
    let ready = service.get("/readyz");
    assert_eq!(ready.status, 503);
    assert!(ready.text().starts_with("no quorum: "), "{}", ready.text());
    let lease = service.lease("files/report", "");
    assert_eq!(lease.status, 503, "{lease:?}");
    assert!(lease.text().contains("no quorum"), "{lease:?}");
    assert_eq!(service.get("/livez").status, 200);
}

/// What is no request of the service raises no mark, and needs no token.
#[test]
fn a_method_that_there_is_not_stops_no_writer() {
    let service = Service::start(&[]);
    assert_eq!(service.put(34, "hello").status, 204);
    for method in ["OPTIONS", "PATCH", "DELETE"] {
        for headers in [&[("Fencing-Token", "40")] as &[(&str, &str)], &[]] {
            assert_eq!(service.send(method, "/files/report", headers, "").status, 405, "{method}");
        }
    }
    assert_eq!(service.put(34, "hello").status, 204);
}

#[test]
fn a_second_name_of_a_file_has_no_lease() {
    let service = Service::start(&[]);
    let names = "/files/report files//report files/report/ files/./report files/x/../report \
        %2Ffiles/report files%2F%2Freport files/%2e/report files/report%2F";
    for name in names.split(' ') {
        let refused = service.lease(name, "");
        assert_eq!(refused.status, 400, "{name}: {refused:?}");
        assert!(refused.text().contains("segment"), "{name}: {refused:?}");
    }
    // One lock, however the name is encoded.
    assert_eq!(service.lease("files/report", r#"{"ttl_ms":60000}"#).status, 201);
    for name in ["files%2Freport", "files/%72eport", "%66iles/report?x=1"] {
        assert_eq!(service.lease(name, "").status, 409, "{name}");
    }
}

#[test]
fn requests_in_flight_finish() {
    let service = Service::start(&[]);
    // Somebody who watches the page does not hold up the end.
    let mut watcher = Client::connect(service.address);
    watcher.send(head("GET", "/page/events", &[]));
    watcher.read(100).unwrap();
    let mut request = Client::connect(service.address);
    let headers = [("Fencing-Token", "1"), ("Expect", "100-continue"), ("Content-Length", "10")];
    request.send(head("PUT", "/files/report", &headers));
    // The service asks for the body: the request is with its handler.
    assert!(request.read_until("\r\n\r\n").starts_with("HTTP/1.1 100"));
    request.send("01234");
    service.process.signal("TERM");
    until("no new connections", || std::net::TcpStream::connect(service.address).is_err());
    assert!(runs(service.process.pid()), "it waits for the request");
    request.send("56789");
    assert_eq!(request.answer().status, 204);
    service.process.ended().is(0);
}

#[test]
fn whoever_waits_for_a_lease_is_told() {
    let service = Service::start(&[]);
    assert_eq!(service.lease("a", r#"{"ttl_ms":600000}"#).status, 201);
    let mut waiting = Client::connect(service.address);
    let headers = [("Content-Type", "application/json"), ("Expect", "100-continue"), ("Content-Length", "17")];
    waiting.send(head("POST", "/leases/a", &headers));
    assert!(waiting.read_until("\r\n\r\n").starts_with("HTTP/1.1 100"), "the request is with its handler");
    waiting.send(r#"{"wait_ms":60000}"#);
    assert_eq!(service.lease("a", "").status, 409);
    service.process.signal("TERM");
    assert_eq!(waiting.answer().status, 503);
    service.process.ended().is(0);
}
