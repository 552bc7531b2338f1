//! Nothing that a client does is unbounded.

use std::io::{BufReader, Read, Write};

use super::Door;
use super::client::{ask, connect, get, head, read};
use super::upstream::Upstream;
use support::cli::{five, until};

#[test]
fn a_client_that_dawdles_loses_its_connection() {
    let upstream = Upstream::start();
    let options = ["--header-timeout", "2s", "--client-timeout", "2s", "--quarantine", "100ms"];
    let door = Door::proxy(&upstream, &options);
    for begun in ["", "P", "PRI * HT", "PUT /files/a HT", "PUT /files/a HTTP/1.1\r\nHost: a\r\nX"] {
        let mut stream = connect(door.requests);
        stream.write_all(begun.as_bytes()).unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        let back = String::from_utf8(back).unwrap();
        assert!(back.is_empty() || back.starts_with("HTTP/1.1 408"), "{begun:?}: {back}");
    }
    // In the middle of its upload.
    let mut stream = connect(door.requests);
    let headers = [("Fencing-Token", "33"), ("Content-Length", "9")];
    stream.write_all((head("PUT", "/files/a", &headers) + "33").as_bytes()).unwrap();
    let answer = read(&mut BufReader::new(stream)).unwrap();
    assert_eq!(
        (answer.status, answer.json()["type"].as_str()),
        (408, Some("urn:fencing:in-doubt"))
    );
    // A connection in HTTP/2 without a request.
    let mut stream = connect(door.requests);
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
}

/// Nobody reads it any more, and it never pauses: it would keep its resource closed.
#[test]
fn an_answer_without_a_client_has_a_bound() {
    let upstream = Upstream::start();
    let options = ["--longest", "300ms", "--quarantine", "100ms", "--limit", "10m"];
    let door = Door::proxy(&upstream, &options);
    let clients = ["33", "34"].map(|token| {
        let mut stream = connect(door.requests);
        let headers = [("Fencing-Token", token), ("Content-Length", "0")];
        stream.write_all(head("PUT", "/drip/a", &headers).as_bytes()).unwrap();
        if token == "33" {
            upstream.until("begin PUT /drip/a 33");
            stream.shutdown(std::net::Shutdown::Both).unwrap();
        }
        stream
    });
    upstream.until("begin PUT /drip/a 34");
    drop(clients);
}

/// The service may close an unused connection just now: the request would be in doubt.
#[test]
fn a_request_with_a_token_uses_no_connection_twice() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &["--ignore-reads"]);
    for (first, token) in [(0, 33), (3, 0)] {
        assert_eq!(upstream.connections(), first);
        for more in 0..3 {
            let answer = match token {
                0 => get(door.requests, "/kept/a"),
                token => super::client::put(door.requests, "/kept/a", token + more, ""),
            };
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    }
    // Reads share one, besides those of the writes.
    // One that is not back yet may cost another.
    assert!((4..=5).contains(&upstream.connections()));
}

#[test]
fn heads_have_a_bound() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &[]);
    let long = "x".repeat(70 << 10);
    let mut stream = connect(door.requests);
    // It may be closed in the middle.
    let _ = stream.write_all(head("GET", "/files/a", &[("X-Long", &long)]).as_bytes());
    let answer = read(&mut BufReader::new(stream));
    assert!(answer.is_none_or(|answer| answer.status == 431), "{:?}", upstream.events());
    assert_eq!(upstream.events(), Vec::<String>::new());
}

#[test]
fn requests_under_way_have_a_bound() {
    let upstream = Upstream::start();
    let options = ["--requests", "1", "--upstream-timeout", "100ms", "--quarantine", "10m"];
    let door = Door::proxy(&upstream, &options);
    assert_eq!(super::client::put(door.requests, "/slow/a", 33, "").status, 504);
    let more = get(door.requests, "/files/b");
    assert_eq!((more.status, more.header("retry-after")), (503, Some("1")), "{more:?}");
    assert_eq!(door.metric("fencing_proxy_refused_total{cause=\"full\"}"), 1.0);
    upstream.open();
    until("there is room", || get(door.requests, "/files/b").status == 200);
}

#[test]
fn leases_and_those_who_wait_have_a_bound() {
    let servers = five();
    let door = Door::serve(&servers, &["--leases", "1", "--waiters", "1", "--longest-ttl", "1m"]);
    let acquire = |name: &str, wish: &str| ask(door.requests, "POST", name, &[], wish);
    let lease = acquire("/leases/a", r#"{"ttl_ms": 60000}"#);
    assert_eq!(lease.status, 201, "{lease:?}");
    let full = acquire("/leases/b", "");
    assert_eq!((full.status, full.header("retry-after")), (503, Some("1")), "{full:?}");
    assert_eq!(acquire("/leases/b", r#"{"ttl_ms": 60001}"#).status, 400);
    assert_eq!(acquire("/leases/b", r#"{"ttl_ms": 1}"#).status, 400);
    assert_eq!(acquire("/leases/b", r#"{"wait_ms": 60001}"#).status, 400);
    assert_eq!(acquire("/leases/b", r#"{"ttl": 1}"#).status, 400);
    assert_eq!(acquire("/leases/b", &" ".repeat(5000)).status, 413);
    for name in ["/leases/", "/leases//a", "/leases/a/../b", "/leases/%2e%2e/b", "/leases/%ff"] {
        assert_eq!(acquire(name, "").status, 400, "{name}");
    }
    // A place is free again.
    let id = lease.json()["lease_id"].as_str().unwrap().to_owned();
    assert_eq!(ask(door.requests, "DELETE", &format!("/leases/{id}"), &[], "").status, 204);
    assert_eq!(door.metric("fencing_serve_leases"), 0.0);
    drop(door);

    let door = Door::serve(&servers, &["--waiters", "1"]);
    let acquire = |wish: &str| ask(door.requests, "POST", "/leases/a", &[], wish);
    assert_eq!(acquire(r#"{"ttl_ms": 60000}"#).status, 201);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| acquire(r#"{"wait_ms": 60000}"#));
        until("it waits", || support::redis::waiting(&servers, "a") > 0);
        let more = acquire(r#"{"wait_ms": 60000}"#);
        assert_eq!((more.status, more.header("retry-after")), (429, Some("1")), "{more:?}");
        door.signal("TERM");
        assert_eq!(first.join().unwrap().status, 503);
    });
}

#[test]
fn a_renewal_finds_a_connection() {
    let servers = five();
    let door = Door::serve(&servers, &["--connections", "4", "--header-timeout", "10m"]);
    let acquire = |wish: &str| ask(door.requests, "POST", "/leases/a", &[], wish);
    let lease = acquire(r#"{"ttl_ms": 600000}"#);
    assert_eq!(lease.status, 201);
    let renewal = format!("/leases/{}", lease.json()["lease_id"].as_str().unwrap());
    let wish = r#"{"wait_ms": 60000, "ttl_ms": 500}"#;
    std::thread::scope(|scope| {
        // More waiters than connections, and connections that say nothing, or nothing more.
        let waiters: Vec<_> = (0..8).map(|_| scope.spawn(|| acquire(wish).status)).collect();
        until("two wait", || waiters.iter().filter(|waiter| !waiter.is_finished()).count() == 2);
        let silent: Vec<_> = (0..8).map(|_| connect(door.requests)).collect();
        let kept: Vec<_> = (0..8)
            .map(|_| {
                let mut stream = connect(door.requests);
                stream.write_all(head("GET", "/openapi.yaml", &[]).as_bytes()).unwrap();
                let mut stream = BufReader::new(stream);
                assert_eq!(read(&mut stream).unwrap().status, 200);
                stream
            })
            .collect();
        assert_eq!(ask(door.requests, "PUT", &renewal, &[], "").status, 200);
        assert_eq!(ask(door.requests, "DELETE", &renewal, &[], "").status, 204);
        drop((silent, kept));
        let mut answers: Vec<u16> =
            waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
        answers.sort_unstable();
        assert_eq!(answers, [201, 201, 429, 429, 429, 429, 429, 429]);
    });
}
