//! Requests that can be read in several ways: the service sees one at most, in the way in which the proxy has read it.

use super::*;

const HEAD: &str = "PUT /files/a HTTP/1.1\r\nHost: a\r\nFencing-Token: 33\r\n";
const HIDDEN: &str = "DELETE /files/hidden HTTP/1.1\r\nHost: a\r\nFencing-Token: 99\r\n\r\n";

fn sent(door: &Door, text: &str) -> Client {
    let mut client = Client::connect(door.requests);
    client.send(text);
    client
}

#[test]
fn a_length_that_is_no_length_is_refused() {
    let (upstream, door) = proxied("");
    let lengths = [
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
    let heads = [
        "PUT /files/a HTTP/1.1\r\nFencing-Token: 33\r\n\r\n",
        "PUT /files/a HTTP/1.0\r\nFencing-Token: 33\r\nTransfer-Encoding: chunked\r\n\r\n",
    ];
    let requests = lengths.map(|lengths| format!("{HEAD}{lengths}\r\n0\r\n\r\n")).into_iter();
    for request in requests.chain(heads.map(str::to_owned)) {
        assert_eq!(sent(&door, &request).answer().status, 400, "{request}");
    }
    assert_eq!(upstream.events(), Vec::<String>::new());
    // The last answer may come before it is counted.
    until("all are counted", || door.metric("fencing_requests_malformed_total") == 15.0);
}

/// RFC 9112, 6.3: the chunks decide, the length is taken away, and nothing behind them is read.
#[test]
fn a_request_with_both_lengths_is_one_request_and_the_last() {
    let whole = format!("{:x}\r\n{HIDDEN}\r\n0\r\n\r\n{HIDDEN}", HIDDEN.len());
    let bodies = [(format!("0\r\n\r\n{HIDDEN}"), 0), (whole, HIDDEN.len())];
    for lengths in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "transfer-encoding: chunked\r\nX-A: b\r\ncontent-length: 0\r\n",
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
    ] {
        let (upstream, door) = proxied("");
        for (body, length) in &bodies {
            let mut client = sent(&door, &format!("{HEAD}{lengths}\r\n{body}"));
            let (first, read) = (client.answer(), length.to_string());
            assert_eq!((first.status, first.header("x-read")), (200, Some(&*read)), "{lengths}");
            assert!(client.try_answer().is_none(), "{lengths}: the connection is closed");
        }
        let events = upstream.events();
        assert!(events.iter().all(|event| event.ends_with("PUT /files/a 33")), "{events:?}");
    }
}

/// The proxy reads chunks as RFC 9112 says, or breaks off. The service gets what it has read, in other chunks.
#[test]
fn chunks_in_another_form_hide_nothing() {
    let (upstream, door) = proxied("--quarantine 100ms");
    for body in [
        "2;x=\n\r\n33\r\n0\r\n\r\n",
        "2\n33\n0\n\n",
        "+2\r\n33\r\n0\r\n\r\n",
        "0x2\r\n33\r\n0\r\n\r\n",
        "2\r\n330\r\n\r\n",
        "10000000000000002\r\n33\r\n0\r\n\r\n",
    ] {
        let text = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n{body}{HIDDEN}");
        let answer = sent(&door, &text).try_answer();
        assert!(answer.is_none_or(|answer| answer.status != 200), "{body:?}");
    }
    let events = upstream.events();
    let hidden = |event: &String| event.starts_with("end") || event.contains("hidden");
    assert!(!events.iter().any(hidden), "{events:?}");
}

#[test]
fn good_requests_pass_on_one_connection_and_so_does_the_body_of_a_read() {
    let (_upstream, door) = proxied("");
    let mut client = Client::connect(door.requests);
    let chunks = "1\r\na\r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n";
    for number in 0..3 {
        client.send(format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n{chunks}"));
        let answer = client.answer();
        assert_eq!((answer.status, answer.header("x-read")), (200, Some("11")), "{number}");
        client.send("GET /files/a HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.answer().status, 200);
    }
    // A read may have a body.
    for framing in ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"] {
        let answer = sent(&door, &format!("GET /files/a HTTP/1.1\r\nHost: test\r\n{framing}")).answer();
        assert_eq!((answer.status, answer.header("x-read")), (200, Some("5")), "{answer:?}");
    }
}
