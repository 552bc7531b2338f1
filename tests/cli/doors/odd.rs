//! Requests and answers in odd forms: trailers, bodies of reads, HTTP/2 by hand, and an unasked upgrade.

use super::*;

#[test]
fn trailers_say_nothing_that_the_fence_has_not_seen() {
    let (service, door) = by_hand("");
    let headers = [
        ("Fencing-Token", "33"),
        ("Transfer-Encoding", "chunked"),
        ("Trailer", "X-Original-URL, Fencing-Token, X-Sum"),
    ];
    let trailers = "0\r\nX-Original-URL: /b\r\nFencing-Token: 99\r\nX-Sum: 7\r\n\r\n";
    let mut client = Client::connect(door.requests);
    client.send(head("PUT", "/files/a", &headers) + trailers);
    let mut service = Client::accepted(&service);
    service.read_until("\r\n\r\n");
    assert_eq!(service.read_until("\r\n\r\n").to_lowercase(), "0\r\nx-sum: 7\r\n\r\n");
}

#[test]
fn the_body_of_a_read_is_passed_on() {
    let (_upstream, door) = proxied("");
    for framing in [
        "Content-Length: 5\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ] {
        let mut client = Client::connect(door.requests);
        client.send(format!("GET /files/a HTTP/1.1\r\nHost: test\r\n{framing}"));
        let answer = client.answer();
        assert_eq!((answer.status, answer.header("x-read")), (200, Some("5")), "{answer:?}");
    }
}

#[test]
fn an_upgrade_that_nobody_asked_for_opens_nothing() {
    let options = "--upstream-timeout 2s --quarantine 10m --limit 100ms";
    let (service, door) = by_hand(options);
    let mut client = door.begin("/files/a", 33, Some(0), "");
    let mut service = Client::accepted(&service);
    service.read_until("\r\n\r\n");
    service.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
    assert_eq!(client.answer().status, 502);
    door.is_closed("/files/a");
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
    let mut client = Client::connect(door.requests);
    client.send(bytes);
    loop {
        let frame = client.read(9).unwrap();
        let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]) as usize;
        let body = client.read(length).unwrap();
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
    let (upstream, door) = proxied("");
    let is_refused = |method: &str, path: &str, more: &[(&str, &str)]| {
        let own =
            [(":method", method), (":scheme", "http"), (":authority", "test"), (":path", path)];
        is_refused(&door, &[&own[..], more].concat())
    };
    let (token, length) = (("fencing-token", "33"), ("content-length", "0"));
    assert!(is_refused("PUT", "/files/a", &[token, length, length]));
    assert!(!is_refused("PUT", "/files/a", &[token, length]));
    assert!(is_refused("GET", "*", &[]));
    assert!(!is_refused("OPTIONS", "*", &[]));
    let events = upstream.events();
    assert!(!events.iter().any(|event| event.contains("GET *")), "{events:?}");
}
