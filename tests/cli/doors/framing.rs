//! Requests that can be read in more than one way never reach the service.

use std::io::{BufReader, Read, Write};

use super::Door;
use super::client::{connect, get, read};
use super::upstream::Upstream;

/// Sends these bytes, and returns what came back until the end of the connection.
fn sent(door: &Door, text: &str) -> String {
    let mut stream = connect(door.requests);
    stream.write_all(text.as_bytes()).unwrap();
    let mut back = Vec::new();
    // The connection is closed at the end of an answer: that is waited for.
    let _ = stream.read_to_end(&mut back);
    String::from_utf8(back).unwrap()
}

const HIDDEN: &str = "DELETE /files/hidden HTTP/1.1\r\nHost: a\r\nFencing-Token: 99\r\n\r\n";

#[test]
fn both_lengths_are_refused_in_either_order() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &[]);
    let size = format!("{:x}", HIDDEN.len());
    for lengths in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n".to_owned(),
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n".to_owned(),
        "transfer-encoding: chunked\r\nX-A: b\r\ncontent-length: 0\r\n".to_owned(),
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n".to_owned(),
        "Content-Length: 5\r\nTransfer-Encoding: identity\r\n".to_owned(),
        "Content-Length: 5\r\nContent-Length: 6\r\n".to_owned(),
        "Transfer-Encoding: xchunked\r\n".to_owned(),
        "Transfer-Encoding: gzip, chunked\r\n".to_owned(),
    ] {
        let head =
            format!("PUT /files/a HTTP/1.1\r\nHost: a\r\nFencing-Token: 33\r\n{lengths}\r\n");
        for body in [format!("0\r\n\r\n{HIDDEN}"), format!("{size}\r\n{HIDDEN}\r\n0\r\n\r\n")] {
            let back = sent(&door, &(head.clone() + &body));
            assert!(back.starts_with("HTTP/1.1 400 "), "{lengths}: {back}");
            assert_eq!(back.matches("HTTP/1.1").count(), 1, "one answer, and the end: {back}");
        }
    }
    assert_eq!(upstream.events(), Vec::<String>::new());
    assert_eq!(door.metric("fencing_requests_malformed_total"), 16.0);
}

#[test]
fn the_second_request_of_a_connection_is_looked_at_too() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &[]);
    for body in
        ["Content-Length: 2\r\n\r\n33", "Transfer-Encoding: chunked\r\n\r\n2\r\n33\r\n0\r\n\r\n"]
    {
        let good = format!("PUT /files/a HTTP/1.1\r\nHost: a\r\nFencing-Token: 33\r\n{body}");
        let both = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
        let bad =
            format!("PUT /files/b HTTP/1.1\r\nHost: a\r\nFencing-Token: 33\r\n{both}{HIDDEN}");
        // In one piece, and byte by byte.
        for piece in [usize::MAX, 1] {
            let stream = connect(door.requests);
            stream.set_nodelay(true).unwrap();
            let mut writing = stream.try_clone().unwrap();
            let text = good.clone() + &bad;
            let bytes = text.as_bytes();
            for piece in bytes.chunks(piece.min(bytes.len())) {
                // It may have been closed before the hidden one.
                let _ = writing.write_all(piece);
            }
            let mut stream = BufReader::new(stream);
            let first = read(&mut stream).expect("an answer to the first");
            assert_eq!((first.status, first.header("x-read")), (200, Some("2")), "{first:?}");
            let second = read(&mut stream).expect("a refusal of the second");
            assert_eq!(second.status, 400, "{second:?}");
            assert!(read(&mut stream).is_none(), "the connection is closed");
        }
    }
    let events = upstream.events();
    assert!(events.iter().all(|event| event.ends_with("PUT /files/a 33")), "{events:?}");
}

#[test]
fn chunks_in_another_form_do_not_pass() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &["--quarantine", "100ms"]);
    let head = "PUT /files/a HTTP/1.1\r\nHost: a\r\nFencing-Token: 33\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in [
        "2;x=\n\r\n33\r\n0\r\n\r\n",
        // hyper would take this one.
        "2;x=y\r\n33\r\n0\r\n\r\n",
        "2\n33\n0\n\n",
        "+2\r\n33\r\n0\r\n\r\n",
        "2\r\n330\r\n\r\n",
    ] {
        let back = sent(&door, &format!("{head}{body}{HIDDEN}"));
        assert!(!back.contains(" 200 "), "{body:?}: {back}");
    }
    let events = upstream.events();
    assert!(
        !events.iter().any(|event| event.starts_with("end") || event.contains("hidden")),
        "{events:?}"
    );
}

#[test]
fn good_requests_pass_on_one_connection() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &[]);
    let mut stream = BufReader::new(connect(door.requests));
    for number in 0..3 {
        let chunked =
            "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n";
        let put = format!("PUT /files/a HTTP/1.1\r\nHost: a\r\nFencing-Token: 33\r\n{chunked}");
        stream.get_mut().write_all(put.as_bytes()).unwrap();
        let answer = read(&mut stream).unwrap();
        assert_eq!((answer.status, answer.header("x-read")), (200, Some("11")), "{number}");
        stream.get_mut().write_all(b"GET /files/a HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(read(&mut stream).unwrap().status, 200);
    }
    assert_eq!(get(door.requests, "/files/a").status, 200);
}
