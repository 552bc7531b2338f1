//! Requests and answers in odd forms: trailers, bodies of reads, HTTP/2 by hand, and an unasked upgrade.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use super::client::{connect, head, put, read};
use super::upstream::Upstream;
use super::{Door, proxy};

/// A proxy before this service, whose answers are the test's own.
fn before(service: &TcpListener) -> Door {
    let mut command = proxy(&format!("http://{}", service.local_addr().unwrap()));
    command.args(["--forget-marks-on-exit", "--clean-start", "--upstream-timeout", "2s"]);
    command.args(["--quarantine", "10m", "--limit", "100ms"]);
    Door::start(command)
}

#[test]
fn trailers_say_nothing_that_the_fence_has_not_seen() {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let door = before(&service);
    let headers = [
        ("Fencing-Token", "33"),
        ("Transfer-Encoding", "chunked"),
        ("Trailer", "X-Original-URL, Fencing-Token, X-Sum"),
    ];
    let trailers = "0\r\nX-Original-URL: /b\r\nFencing-Token: 99\r\nX-Sum: 7\r\n\r\n";
    let mut client = connect(door.requests);
    client.write_all((head("PUT", "/files/a", &headers) + trailers).as_bytes()).unwrap();
    let mut service = BufReader::new(service.accept().unwrap().0);
    let (mut seen, mut ends) = (String::new(), 0);
    while ends < 2 {
        let before = seen.len();
        assert!(service.read_line(&mut seen).unwrap() > 0, "{seen}");
        ends += usize::from(&seen[before..] == "\r\n");
    }
    let trailers = seen.to_lowercase().split_once("\r\n0\r\n").unwrap().1.to_owned();
    assert_eq!(trailers, "x-sum: 7\r\n\r\n", "{seen}");
}

#[test]
fn the_body_of_a_read_is_passed_on() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &[]);
    for framing in [
        "Content-Length: 5\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ] {
        let mut client = connect(door.requests);
        let text = format!("GET /files/a HTTP/1.1\r\nHost: test\r\n{framing}");
        client.write_all(text.as_bytes()).unwrap();
        let answer = read(&mut BufReader::new(client)).unwrap();
        assert_eq!((answer.status, answer.header("x-read")), (200, Some("5")), "{answer:?}");
    }
}

#[test]
fn an_upgrade_that_nobody_asked_for_opens_nothing() {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let door = before(&service);
    let mut client = connect(door.requests);
    let headers = [("Fencing-Token", "33"), ("Content-Length", "0")];
    client.write_all(head("PUT", "/files/a", &headers).as_bytes()).unwrap();
    let mut service = service.accept().unwrap().0;
    assert!(service.read(&mut [0; 1024]).unwrap() > 0);
    let upgrade = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    service.write_all(upgrade).unwrap();
    assert_eq!(read(&mut BufReader::new(client)).unwrap().status, 502);
    let closed = put(door.requests, "/files/a", 34, "");
    assert_eq!(closed.status, 503, "{closed:?}");
}

/// Sends a request in HTTP/2, and returns whether the answer is a 400 of the proxy.
fn is_refused(door: &Door, headers: &[(&str, &str)]) -> bool {
    let mut block = Vec::new();
    for (name, value) in headers {
        // A literal, not indexed and without Huffman codes.
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    // HEADERS, with the end of the headers and of the stream.
    bytes.extend([0, 0, u8::try_from(block.len()).unwrap(), 1, 5, 0, 0, 0, 1]);
    bytes.extend(block);
    let mut stream = connect(door.requests);
    stream.write_all(&bytes).unwrap();
    loop {
        let mut frame = [0; 9];
        stream.read_exact(&mut frame).unwrap();
        let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]) as usize;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        match frame[3] {
            // The status 400 has an index of its own. A table size may stand before it.
            1 => return body.iter().find(|byte| **byte & 0xe0 != 0x20) == Some(&0x8c),
            3 => return false,
            _ => {}
        }
    }
}

#[test]
fn http2_has_the_same_rules_for_lengths_and_paths() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &[]);
    let request = |method: &'static str, path: &'static str| {
        let authority = (":authority", "test");
        vec![(":method", method), (":scheme", "http"), authority, (":path", path)]
    };
    let mut twice = request("PUT", "/files/a");
    twice.push(("fencing-token", "33"));
    twice.extend([("content-length", "0"); 2]);
    assert!(is_refused(&door, &twice), "{:?}", upstream.events());
    twice.pop();
    assert!(!is_refused(&door, &twice));
    assert!(is_refused(&door, &request("GET", "*")));
    assert!(!is_refused(&door, &request("OPTIONS", "*")));
    let events = upstream.events();
    assert!(!events.iter().any(|event| event.contains("GET *")), "{events:?}");
}
