//! Leases over HTTP: who holds one, for how long, and what becomes of those whose client goes away.

use std::io::Write;
use std::net::Shutdown;

use super::Door;
use super::client::{Answer, ask, connect, get, head};
use support::cli::{five, until};

const JSON: (&str, &str) = ("Content-Type", "application/json");

fn acquire(door: &Door, name: &str, wish: &str) -> Answer {
    ask(door.requests, "POST", &format!("/leases/{name}"), &[], wish)
}

fn of(lease: &Answer) -> String {
    format!("/leases/{}", lease.json()["lease_id"].as_str().unwrap())
}

#[test]
fn a_lease_is_acquired_renewed_and_released() {
    let mut servers = five();
    servers[0].kill();
    let door = Door::serve(&servers, &[]);
    let first = acquire(&door, "files/a%20b", r#"{"ttl_ms": 60000, "wait_ms": 20000}"#);
    assert_eq!(first.status, 201, "{first:?}");
    let json = first.json();
    let token = json["token"].as_u64().unwrap();
    assert_eq!((&json["resource"], &json["ttl_ms"]), (&"files/a b".into(), &60000.into()));
    assert_eq!(json["sequencer"], format!("{token} files/a b"));
    assert_eq!(first.header("fencing-token"), Some(&*token.to_string()));
    assert_eq!(first.header("fencing-sequencer"), Some(&*format!("{token} files/a b")));
    assert_eq!(first.header("location"), Some(&*of(&first)));
    assert_eq!(json["lease_id"].as_str().unwrap().len(), 32);
    assert_eq!(door.metric("fencing_serve_leases"), 1.0);

    let held = acquire(&door, "files/a%20b", "");
    assert_eq!((held.status, held.json()["type"].as_str()), (409, Some("urn:fencing:held")));
    let after: u64 = held.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=61).contains(&after), "{after}");

    let shown = ask(door.requests, "GET", &of(&first), &[], "");
    assert_eq!((shown.status, shown.json()["token"].as_u64()), (200, Some(token)));
    let renewed = ask(door.requests, "PUT", &of(&first), &[], "");
    assert_eq!(renewed.status, 200, "{renewed:?}");
    assert!(renewed.json()["valid_for_ms"].as_u64().unwrap() > 30_000);
    assert_eq!(ask(door.requests, "DELETE", &of(&first), &[], "").status, 204);
    for method in ["GET", "PUT", "DELETE"] {
        let gone = ask(door.requests, method, &of(&first), &[], "");
        assert_eq!(
            (gone.status, gone.json()["type"].as_str()),
            (404, Some("urn:fencing:no-lease"))
        );
    }
    let second = acquire(&door, "files/a%20b", "");
    assert!(second.json()["token"].as_u64().unwrap() > token);
    assert_eq!(door.metric("fencing_serve_leases"), 1.0);
}

#[test]
fn a_client_that_shows_no_life_loses_its_lease() {
    let servers = five();
    let door = Door::serve(&servers, &[]);
    let first = acquire(&door, "a", r#"{"ttl_ms": 1000, "wait_ms": 20000}"#);
    let waited = acquire(&door, "a", r#"{"wait_ms": 20000}"#);
    assert_eq!(waited.status, 201, "{waited:?}");
    assert_eq!(ask(door.requests, "PUT", &of(&first), &[], "").status, 404);
    assert!(waited.json()["token"].as_u64() > first.json()["token"].as_u64());
}

#[test]
fn a_client_that_hangs_up_while_it_waits_leaves_no_lock_behind() {
    let servers = five();
    let door = Door::serve(&servers, &[]);
    let first = acquire(&door, "a", r#"{"ttl_ms": 600000}"#);
    let wish = r#"{"ttl_ms": 600000, "wait_ms": 60000}"#;
    let mut waiting = connect(door.requests);
    let length = wish.len().to_string();
    let text = head("POST", "/leases/a", &[JSON, ("Content-Length", &length)]) + wish;
    waiting.write_all(text.as_bytes()).unwrap();
    until("it waits", || support::redis::waiting(&servers, "a") > 0);
    waiting.shutdown(Shutdown::Both).unwrap();
    drop(waiting);
    assert_eq!(ask(door.requests, "DELETE", &of(&first), &[], "").status, 204);
    // With the TTL of the one that has gone, this would be held for ten minutes.
    until("it is free", || acquire(&door, "a", "").status == 201);
    assert_eq!(door.metric("fencing_serve_leases"), 1.0);
}

#[test]
fn without_a_quorum_it_says_so() {
    let mut servers = five();
    let door = Door::serve(&servers, &[]);
    until("it is ready", || get(door.status, "/readyz").text() == "ready\n");
    servers.iter_mut().take(3).for_each(|server| server.kill());
    let none = acquire(&door, "a", "");
    assert_eq!((none.status, none.header("retry-after")), (503, Some("1")), "{none:?}");
    assert!(!none.text().contains("redis.sock"), "the servers are no client's concern: {none:?}");
    until("it is not ready", || get(door.status, "/readyz").status == 503);
    let ready = get(door.status, "/readyz");
    assert!(ready.status == 503 && ready.text().starts_with("no quorum: "), "{ready:?}");
    assert_eq!(get(door.requests, "/health").json()["ready"], false);
    assert_eq!(get(door.status, "/livez").status, 200);
}

#[test]
fn a_web_page_gets_no_lease() {
    let servers = five();
    let door = Door::serve(&servers, &[]);
    let ask = |headers: &[(&str, &str)], body: &str| {
        super::client::ask(door.requests, "POST", "/leases/a", headers, body).status
    };
    // What a browser adds for a page of any origin, also of the name that the page has made of this address.
    for headers in [
        [("Origin", "https://evil.example"), JSON],
        [("Origin", "null"), JSON],
        [("Origin", "http://test"), JSON],
        [("Sec-Fetch-Site", "cross-site"), JSON],
        [("Sec-Fetch-Site", "same-site"), JSON],
        [("Sec-Fetch-Site", "same-origin"), JSON],
    ] {
        assert_eq!(ask(&headers, "{}"), 403, "{headers:?}");
        assert_eq!(ask(&headers[..1], ""), 403, "{headers:?}");
    }
    // A form needs no consent of the browser's.
    for kind in ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        assert_eq!(ask(&[("Content-Type", kind)], "{}"), 415, "{kind}");
    }
    // Typed into a browser, and from programs.
    assert_eq!(ask(&[("Sec-Fetch-Site", "none")], ""), 201);
    let kind = ("Content-Type", "Application/JSON; charset=utf-8");
    assert_eq!(super::client::ask(door.requests, "POST", "/leases/b", &[kind], "{}").status, 201);
}
