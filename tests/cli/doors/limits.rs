//! Nothing that a client does is unbounded.

use std::io::Read;

use super::upstream::MANY;
use super::*;

/// What a client of HTTP/2 begins with.
pub const HTTP2: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[test]
fn a_client_that_dawdles_loses_its_connection() {
    let (_upstream, door) = proxied("--header-timeout 2s --client-timeout 2s --quarantine 100ms");
    let begun = ["", "P", "PRI * HT", "PUT /files/a HT", "PUT /files/a HTTP/1.1\r\nHost: a\r\nX"];
    let clients = begun.map(|begun| {
        let mut client = Client::connect(door.requests);
        client.send(begun);
        client
    });
    // In the middle of its upload.
    let mut upload = door.begin("/files/a", 33, Some(9), "33");
    // A connection in HTTP/2 without a request.
    let mut http2 = Client::connect(door.requests);
    http2.send(HTTP2);
    for (mut client, begun) in clients.into_iter().zip(begun) {
        let back = String::from_utf8(client.rest()).unwrap();
        assert!(back.is_empty() || back.starts_with("HTTP/1.1 408"), "{begun:?}: {back}");
    }
    upload.answer().is(408, "in-doubt");
    http2.rest();
}

/// Nobody reads it any more, and it never pauses: it would keep its resource closed.
#[test]
fn an_answer_without_a_client_has_a_bound() {
    let options = "--longest 300ms --quarantine 100ms --limit 10m";
    let (upstream, door) = proxied(options);
    let first = door.begin("/drip/a", 33, Some(0), "");
    upstream.until("begin PUT /drip/a 33");
    first.stream().shutdown(std::net::Shutdown::Both).unwrap();
    let _second = door.begin("/drip/a", 34, Some(0), "");
    upstream.until("begin PUT /drip/a 34");
}

/// The service may close an unused connection just now: the request would be in doubt.
#[test]
fn a_request_with_a_token_uses_no_connection_twice() {
    let (upstream, door) = proxied("--ignore-reads");
    (33..36).for_each(|token| assert_eq!(door.put("/kept/a", token, "").status, 200));
    assert_eq!(upstream.connections(), 3);
    (0..3).for_each(|_| assert_eq!(door.get("/kept/a").status, 200));
    // Reads share one, besides those of the writes. One that is not back yet may cost another.
    assert!((4..=5).contains(&upstream.connections()));
}

/// A connection for each request takes no port for longer than the request. On loopback the system takes ports out of
/// TIME-WAIT again, so this runs in a network namespace that does not.
#[test]
fn writes_use_up_no_ports() {
    // Far fewer ports than writes.
    let few = "cd /proc/sys/net/ipv4; echo 0 >tcp_tw_reuse; echo 40000 40063 >ip_local_port_range;";
    if !is_in_namespace("doors::limits::writes_use_up_no_ports", few) {
        return;
    }
    let (_upstream, door) = proxied("");
    let mut client = Client::connect(door.requests);
    let headers = [("Fencing-Token", "34"), ("Content-Length", "1")];
    // The service closes its connection, or leaves that to the proxy.
    for path in ["/files/a", "/kept/a"] {
        for _ in 0..200 {
            client.send(head("PUT", path, &headers) + "x");
            assert_eq!(client.answer().status, 200);
        }
    }
}

#[test]
fn heads_have_a_bound() {
    let (upstream, door) = proxied("");
    let mut client = Client::connect(door.requests);
    // It may be closed in the middle.
    let _ = client.try_send(head("GET", "/files/a", &[("X-Long", &"x".repeat(70 << 10))]));
    assert!(client.try_answer().is_none_or(|answer| answer.status == 431));
    assert_eq!(upstream.events(), Vec::<String>::new());
}

#[test]
fn requests_under_way_have_a_bound() {
    let options = "--requests 1 --upstream-timeout 100ms --quarantine 10m";
    let (upstream, door) = proxied(options);
    door.put("/slow/a", 33, "").is(504, "in-doubt");
    let more = door.get("/files/b");
    assert_eq!((more.status, more.header("retry-after")), (503, Some("1")), "{more:?}");
    assert_eq!(door.metric("fencing_proxy_refused_total{cause=\"full\"}"), 1.0);
    upstream.open();
    until("there is room", || door.get("/files/b").status == 200);
}

#[test]
fn a_renewal_finds_a_connection() {
    let (_servers, door) = served("--connections 4 --header-timeout 10m");
    let lease = door.lease("a", 600_000);
    let waiter = || {
        let lease = door.acquire("a", r#"{"wait_ms": 60000}"#);
        let released = (lease.status == 201).then(|| door.of(&lease, "DELETE").status);
        (lease.status, released)
    };
    std::thread::scope(|scope| {
        // More waiters than connections, and connections that say nothing, or nothing more.
        let waiters: Vec<_> = (0..8).map(|_| scope.spawn(waiter)).collect();
        until("two wait", || waiters.iter().filter(|waiter| !waiter.is_finished()).count() == 2);
        let _silent: Vec<_> = (0..8).map(|_| Client::connect(door.requests)).collect();
        let kept = (0..8).map(|_| {
            let mut client = Client::connect(door.requests);
            client.send(head("GET", "/openapi.yaml", &[]));
            assert_eq!(client.answer().status, 200);
            client
        });
        let _kept: Vec<_> = kept.collect();
        assert_eq!(door.of(&lease, "PUT").status, 200);
        assert_eq!(door.of(&lease, "DELETE").status, 204);
        let answers = waiters.into_iter().map(|waiter| waiter.join().unwrap());
        let mut answers: Vec<_> = answers.collect();
        answers.sort_unstable();
        assert_eq!(answers[..2], [(201, Some(204)); 2]);
        assert_eq!(answers[2..], [(429, None); 6]);
    });
}

/// The process has never had more than this in memory, in KiB.
const BOUND: usize = 64 << 10;

fn assert_bounded(door: &Door) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", door.process.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: usize = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < BOUND, "{peak} KiB");
}

#[test]
fn large_bodies_go_up_and_come_down_in_constant_memory() {
    let (_upstream, door) = proxied("");
    let mut piece = vec![b'x'; 1 << 20];
    let chunk = [b"100000\r\n", &piece[..], b"\r\n"].concat();
    for (length, piece, end) in [(Some(MANY), &piece, ""), (None, &chunk, "0\r\n\r\n")] {
        let mut client = door.begin("/files/a", 33, length, "");
        (0..MANY >> 20).for_each(|_| client.send(piece));
        client.send(end);
        let (answer, read) = (client.answer(), MANY.to_string());
        assert_eq!((answer.status, answer.header("x-read")), (200, Some(&*read)));
        assert_bounded(&door);
    }
    let mut client = Client::connect(door.requests);
    client.send(head("GET", "/many/a", &[("Fencing-Token", "33")]));
    let mut all = 0;
    while all < MANY {
        let read = client.stream().read(&mut piece).unwrap();
        assert!(read > 0, "it ended after {all} bytes");
        all += read;
    }
    assert_bounded(&door);
}
