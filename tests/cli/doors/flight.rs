//! An answer, or the end of a client, is not the end of a request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use super::Door;
use super::client::{Answer, connect, head, put, read};
use super::upstream::Upstream;
use support::cli::until;

const WAIT: [&str; 2] = ["--limit", "300ms"];

fn assert_closed(answer: &Answer) {
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.json()["type"], "urn:fencing:unavailable");
}

/// Sends a request with token 33, and a part of its upload, in chunks.
fn begin(door: &Door, path: &str) -> TcpStream {
    let mut client = connect(door.requests);
    let headers = [("Fencing-Token", "33"), ("Transfer-Encoding", "chunked")];
    client.write_all((head("PUT", path, &headers) + "2\r\n33\r\n").as_bytes()).unwrap();
    client
}

#[test]
fn a_request_that_was_answered_early_is_in_flight_until_its_upload_has_ended() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &[&WAIT[..], &["--quarantine", "10m"]].concat());
    for path in ["/early/two", "/early/chunks", "/early/none"] {
        let mut client = begin(&door, path);
        // The client has its answer as a whole, while it sends.
        let early = read(&mut BufReader::new(client.try_clone().unwrap())).unwrap();
        let text = if path == "/early/none" { "" } else { "ok" };
        assert_eq!((early.status, early.text()), (200, text), "{path}");
        for _ in 0..2 {
            assert_closed(&put(door.requests, path, 34, "34"));
            client.write_all(b"2\r\n33\r\n").unwrap();
        }
        assert_eq!(door.metric("fencing_proxy_requests"), 1.0, "{path}");
        client.write_all(b"0\r\n\r\n").unwrap();
        until("34 is let in", || put(door.requests, path, 34, "34").status == 200);
        upstream.until(&format!("end PUT {path} 33"));
    }
    assert_eq!(door.metric("fencing_proxy_given_up_total{cause=\"upload\"}"), 0.0);
}

#[test]
fn an_upload_that_breaks_off_behind_its_answer_keeps_the_resource_closed() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &[&WAIT[..], &["--quarantine", "6s"]].concat());
    let client = begin(&door, "/early/a");
    let early = read(&mut BufReader::new(client.try_clone().unwrap())).unwrap();
    assert_eq!(early.status, 200);
    drop(client);
    until("it was given up", || {
        door.metric("fencing_proxy_given_up_total{cause=\"upload\"}") == 1.0
    });
    assert_closed(&put(door.requests, "/early/a", 34, "34"));
    until("the quarantine is over", || put(door.requests, "/early/a", 34, "34").status == 200);
}

#[test]
fn an_upload_is_cut_off_when_a_newer_token_has_come() {
    for quarantine in ["1s", "10m"] {
        let upstream = Upstream::start();
        let options = ["--limit", "100ms", "--upload-grace", "100ms", "--quarantine", quarantine];
        let door = Door::proxy(&upstream, &options);
        // Nothing newer comes there.
        let mut other = begin(&door, "/files/b");
        let old = begin(&door, "/files/a");
        upstream.until("begin PUT /files/a 33");
        assert_closed(&put(door.requests, "/files/a", 34, "34"));
        let cut = read(&mut BufReader::new(old)).unwrap();
        assert_eq!(
            (cut.status, cut.json()["type"].as_str()),
            (503, Some("urn:fencing:superseded"))
        );
        until("it is counted", || {
            door.metric("fencing_proxy_given_up_total{cause=\"superseded\"}") == 1.0
        });
        if quarantine == "1s" {
            until("34 is let in", || put(door.requests, "/files/a", 34, "34").status == 200);
        } else {
            // Nobody knows what the service does with what it has.
            assert_closed(&put(door.requests, "/files/a", 34, "34"));
        }
        other.write_all(b"0\r\n\r\n").unwrap();
        assert_eq!(read(&mut BufReader::new(other)).unwrap().status, 200);
    }
}

#[test]
fn what_a_service_reads_behind_its_answer_reaches_it() {
    // More than the buffer of its own system takes.
    const LENGTH: usize = 400_000;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = super::proxy(&format!("http://{}", listener.local_addr().unwrap()));
    command.args(["--forget-marks-on-exit", "--clean-start"]);
    let door = Door::start(command);
    let mut client = connect(door.requests);
    let length = LENGTH.to_string();
    let headers = [("Fencing-Token", "33"), ("Content-Length", length.as_str())];
    client.write_all(head("PUT", "/files/a", &headers).as_bytes()).unwrap();
    let mut service = BufReader::new(listener.accept().unwrap().0);
    let mut seen = String::new();
    while !seen.ends_with("\r\n\r\n") {
        assert!(service.read_line(&mut seen).unwrap() > 0, "{seen}");
    }
    service.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    assert_eq!(read(&mut BufReader::new(client.try_clone().unwrap())).unwrap().status, 200);
    client.write_all(&vec![b'x'; LENGTH]).unwrap();
    until("the proxy has passed it on", || door.metric("fencing_proxy_requests") == 0.0);
    let mut upload = Vec::new();
    service.read_to_end(&mut upload).unwrap();
    assert_eq!(upload.len(), LENGTH);
}

#[test]
fn an_upload_that_the_service_does_not_read_is_stopped() {
    // It answers in the middle of the upload, and reads nothing more.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = super::proxy(&format!("http://{}", listener.local_addr().unwrap()));
    command.args(["--forget-marks-on-exit", "--clean-start", "--upstream-timeout", "3s"]);
    command.args(["--quarantine", "1s", "--client-timeout", "10m"]);
    let door = Door::start(command);
    let mut client = begin(&door, "/files/a");
    let mut service = BufReader::new(listener.accept().unwrap().0);
    let mut seen = String::new();
    while !seen.ends_with("2\r\n33\r\n") {
        assert!(service.read_line(&mut seen).unwrap() > 0, "{seen}");
    }
    service.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    assert_eq!(read(&mut BufReader::new(client.try_clone().unwrap())).unwrap().status, 200);
    until("it was given up", || door.metric("fencing_proxy_requests") == 0.0);
    until("it is counted", || door.metric("fencing_proxy_given_up_total{cause=\"upload\"}") == 1.0);
    // What the client sends now comes behind newer requests, and goes nowhere.
    let _ = client.write_all(b"4\r\nlate\r\n0\r\n\r\n");
    let mut late = Vec::new();
    let _ = service.read_to_end(&mut late);
    assert_eq!(String::from_utf8(late).unwrap(), "");
}

#[test]
fn a_client_that_goes_away_takes_nothing_from_the_hold() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &["--limit", "800ms", "--quarantine", "6s"]);
    let headers = [("Fencing-Token", "33"), ("Content-Length", "0")];
    let mut client = connect(door.requests);
    client.write_all(head("PUT", "/torn/a", &headers).as_bytes()).unwrap();
    // The answer has begun.
    assert!(client.peek(&mut [0]).unwrap() > 0);
    drop(client);
    // For longer than the quarantine, which has not begun: the service still answers.
    for _ in 0..3 {
        assert_closed(&put(door.requests, "/torn/a", 34, ""));
    }
    assert_eq!(door.metric("fencing_proxy_held"), 0.0);
    upstream.open();
    until("the connection broke", || door.metric("fencing_proxy_held") == 1.0);
    assert_closed(&put(door.requests, "/torn/a", 34, ""));
    until("the quarantine is over", || put(door.requests, "/torn/a", 34, "").status == 200);
}

#[test]
fn a_connection_that_breaks_behind_an_early_answer_says_nothing_about_the_work() {
    for (polite, status) in [("", 503), ("Connection: close\r\n", 504)] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut command = super::proxy(&format!("http://{}", listener.local_addr().unwrap()));
        command.args(["--forget-marks-on-exit", "--clean-start", "--upstream-timeout", "2s"]);
        command.args(["--quarantine", "10m", "--client-timeout", "10m", "--limit", "100ms"]);
        let door = Door::start(command);
        let client = begin(&door, "/files/a");
        let mut service = BufReader::new(listener.accept().unwrap().0);
        let mut seen = String::new();
        while !seen.ends_with("2\r\n33\r\n") {
            assert!(service.read_line(&mut seen).unwrap() > 0, "{seen}");
        }
        let answer = format!("HTTP/1.1 200 OK\r\n{polite}Content-Length: 2\r\n\r\nok");
        service.get_mut().write_all(answer.as_bytes()).unwrap();
        let early = read(&mut BufReader::new(client.try_clone().unwrap())).unwrap();
        assert_eq!(early.status, 200);
        drop(service);
        let given_up = || door.metric("fencing_proxy_given_up_total{cause=\"upload\"}");
        if polite.is_empty() {
            until("it was given up", || given_up() == 1.0);
        } else {
            until("it has ended", || door.metric("fencing_proxy_requests") == 0.0);
        }
        // Let in, it gets no answer here.
        assert_eq!(put(door.requests, "/files/a", 34, "34").status, status, "{polite}");
    }
}
