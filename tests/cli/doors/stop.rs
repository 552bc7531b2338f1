//! SIGTERM: requests finish within a bound, and the exit status says whether they have.

use std::io::{self, BufReader, ErrorKind, Write};
use std::net::TcpStream;

use super::client::{ask, connect, get, head, put, read};
use super::upstream::Upstream;
use super::{Door, proxy};
use support::cli::{finish, five, run, until};

fn begin(door: &Door, upstream: &Upstream) -> TcpStream {
    let mut client = connect(door.requests);
    let headers = [("Fencing-Token", "33"), ("Content-Length", "0")];
    client.write_all(head("PUT", "/slow/a", &headers).as_bytes()).unwrap();
    upstream.until("begin PUT /slow/a 33");
    client
}

#[test]
fn requests_in_flight_finish() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &["--stop-within", "10m"]);
    let client = begin(&door, &upstream);
    door.signal("TERM");
    until("it takes no more", || TcpStream::connect(door.requests).is_err());
    let ready = get(door.status, "/readyz");
    assert_eq!((ready.status, ready.text()), (503, "stopping\n"));
    upstream.open();
    assert_eq!(read(&mut BufReader::new(client)).unwrap().status, 200);
    assert_eq!(door.ended().code, Some(0));
}

#[test]
fn a_request_that_does_not_end_holds_it_up_for_a_bounded_time() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &["--stop-within", "300ms"]);
    let _client = begin(&door, &upstream);
    door.signal("TERM");
    assert_eq!(door.ended().code, Some(75));
}

#[test]
fn a_connection_that_says_nothing_holds_nothing_up() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &["--header-timeout", "10m", "--stop-within", "10m"]);
    let silent = connect(door.requests);
    // The connection behind it was accepted later.
    assert_eq!(get(door.requests, "/files/a").status, 200);
    door.signal("TERM");
    assert_eq!(door.ended().code, Some(0));
    drop(silent);
}

#[test]
fn a_request_that_was_given_up_is_waited_for_too() {
    let upstream = Upstream::start();
    let options = ["--upstream-timeout", "100ms", "--quarantine", "10m", "--stop-within", "10m"];
    let door = Door::proxy(&upstream, &options);
    assert_eq!(put(door.requests, "/slow/a", 33, "").status, 504);
    door.signal("TERM");
    until("it takes no more", || TcpStream::connect(door.requests).is_err());
    assert_eq!(get(door.status, "/livez").status, 200, "it has not ended");
    upstream.open();
    assert_eq!(door.ended().code, Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &["--stop-within", "10m"]);
    let _client = begin(&door, &upstream);
    door.signal("TERM");
    until("it takes no more", || TcpStream::connect(door.requests).is_err());
    door.signal("INT");
    assert_eq!(door.ended().code, Some(128 + 2));
}

#[test]
fn leases_outlive_the_service_until_their_ttl() {
    let servers = five();
    let door = Door::serve(&servers, &[]);
    let wish = r#"{"ttl_ms": 600000}"#;
    let lease = ask(door.requests, "POST", "/leases/invoice/42", &[], wish);
    assert_eq!(lease.status, 201, "{lease:?}");
    let waiting = std::thread::spawn({
        let address = door.requests;
        move || ask(address, "POST", "/leases/invoice/42", &[], r#"{"wait_ms": 60000}"#)
    });
    until("it waits", || support::redis::waiting(&servers, "invoice/42") > 0);
    door.signal("TERM");
    // Those who wait are told.
    assert_eq!(waiting.join().unwrap().status, 503);
    assert_eq!(door.ended().code, Some(0));
    let other = finish(run(&servers, &["--wait", "0s"], "true"));
    assert_eq!(other.code, Some(75), "the client works under its lease: {other:?}");
    // The next one does not know it.
    let door = Door::serve(&servers, &[]);
    let id = lease.json()["lease_id"].as_str().unwrap().to_owned();
    assert_eq!(ask(door.requests, "PUT", &format!("/leases/{id}"), &[], "").status, 404);
}

/// Fills a pipe up.
fn fill(pipe: &mut io::PipeWriter) {
    rustix::io::ioctl_fionbio(&mut *pipe, true).unwrap();
    for size in [4096, 1] {
        let full = loop {
            if let Err(error) = pipe.write(&vec![b'x'; size]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
    }
    rustix::io::ioctl_fionbio(&mut *pipe, false).unwrap();
}

#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    let upstream = Upstream::start();
    let (_unread, mut log) = io::pipe().unwrap();
    let mut command = proxy(&upstream.url());
    command.args(["--forget-marks-on-exit", "--clean-start"]);
    command.env("RUST_LOG", "debug").stderr(log.try_clone().unwrap());
    let door = Door::start_logging(command);
    fill(&mut log);
    assert_eq!(put(door.requests, "/files/a", 34, "34").status, 200);
    // Each is logged, and there are more than threads.
    for _ in 0..64 {
        assert_eq!(put(door.requests, "/files/a", 33, "33").status, 412);
    }
    assert_eq!(get(door.status, "/livez").status, 200);
    door.signal("TERM");
    assert_eq!(door.ended().code, Some(0));
}
