//! Requests that can be read in more than one way: the service sees one of them at most, in the one way in which
//! the proxy has read it.

use std::io::{BufReader, Write};

use super::Door;
use super::client::{connect, get, read};
use super::upstream::Upstream;
use support::cli::until;

/// Sends these bytes, and returns the status of what came back.
fn sent(door: &Door, text: &str) -> Option<u16> {
    let mut stream = BufReader::new(connect(door.requests));
    stream.get_mut().write_all(text.as_bytes()).unwrap();
    read(&mut stream).map(|answer| answer.status)
}

const HIDDEN: &str = "DELETE /files/hidden HTTP/1.1\r\nHost: a\r\nFencing-Token: 99\r\n\r\n";

#[test]
fn a_length_that_is_no_length_is_refused() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &[]);
    let headers = [
        "Content-Length: 5\r\nTransfer-Encoding: identity\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length : 5\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding:\x0bchunked\r\n",
        "Host: b\r\nContent-Length: 5\r\n",
        "A: b\r\n c\r\n",
    ];
    for lengths in headers {
        let head =
            format!("PUT /files/a HTTP/1.1\r\nHost: a\r\nFencing-Token: 33\r\n{lengths}\r\n");
        let back = sent(&door, &format!("{head}0\r\n\r\n"));
        assert_eq!(back, Some(400), "{lengths}");
    }
    for head in [
        "PUT /files/a HTTP/1.1\r\nFencing-Token: 33\r\n\r\n",
        "PUT /files/a HTTP/1.0\r\nFencing-Token: 33\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        assert_eq!(sent(&door, head), Some(400), "{head}");
    }
    assert_eq!(upstream.events(), Vec::<String>::new());
    // The last answer may come before it is counted.
    let all = headers.len() as f64 + 2.0;
    until("all are counted", || door.metric("fencing_requests_malformed_total") == all);
}

/// RFC 9112, 6.3: the chunks decide, the length is taken away, and nothing behind them is read.
#[test]
fn a_request_with_both_lengths_is_one_request_and_the_last() {
    let size = format!("{:x}", HIDDEN.len());
    for lengths in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "transfer-encoding: chunked\r\nX-A: b\r\ncontent-length: 0\r\n",
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
    ] {
        let head =
            format!("PUT /files/a HTTP/1.1\r\nHost: a\r\nFencing-Token: 33\r\n{lengths}\r\n");
        let whole = HIDDEN.len().to_string();
        for (body, length) in [
            (format!("0\r\n\r\n{HIDDEN}"), "0"),
            (format!("{size}\r\n{HIDDEN}\r\n0\r\n\r\n{HIDDEN}"), whole.as_str()),
        ] {
            let upstream = Upstream::start();
            let door = Door::proxy(&upstream, &[]);
            let mut stream = BufReader::new(connect(door.requests));
            stream.get_mut().write_all((head.clone() + &body).as_bytes()).unwrap();
            let first = read(&mut stream).expect("an answer");
            assert_eq!((first.status, first.header("x-read")), (200, Some(length)), "{lengths}");
            assert!(read(&mut stream).is_none(), "{lengths}: the connection is closed");
            let events = upstream.events();
            assert!(events.iter().all(|event| event.ends_with("PUT /files/a 33")), "{events:?}");
        }
    }
}

/// What is between chunks is read as RFC 9112 says, or the request is broken off: the service gets what the proxy
/// has read, in chunks of its own.
#[test]
fn chunks_in_another_form_hide_nothing() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &["--quarantine", "100ms"]);
    let head = "PUT /files/a HTTP/1.1\r\nHost: a\r\nFencing-Token: 33\r\nTransfer-Encoding: chunked\r\n\r\n";
    for body in [
        "2;x=\n\r\n33\r\n0\r\n\r\n",
        "2\n33\n0\n\n",
        "+2\r\n33\r\n0\r\n\r\n",
        "0x2\r\n33\r\n0\r\n\r\n",
        "2\r\n330\r\n\r\n",
        "10000000000000002\r\n33\r\n0\r\n\r\n",
    ] {
        let back = sent(&door, &format!("{head}{body}{HIDDEN}"));
        assert_ne!(back, Some(200), "{body:?}");
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
