//! SIGTERM: requests finish within a bound, and the exit status says whether they have.

use super::*;
use crate::guard::full_pipe;

/// A request at the service, and the proxy is told to stop.
fn stopping(stop_within: &str) -> (Upstream, Door, Client) {
    let (upstream, door) = proxied(&format!("--stop-within {stop_within}"));
    let client = door.begin("/slow/a", 33, Some(0), "");
    upstream.until("begin PUT /slow/a 33");
    door.process.signal("TERM");
    until("it takes no more", || TcpStream::connect(door.requests).is_err());
    (upstream, door, client)
}

#[test]
fn requests_in_flight_finish() {
    let (upstream, door, mut client) = stopping("10m");
    let ready = door.page("/readyz");
    assert_eq!((ready.status, ready.text()), (503, "stopping\n"));
    upstream.open();
    assert_eq!(client.answer().status, 200);
    assert_eq!(door.process.ended().code, Some(0));
}

/// However long it takes: its client pauses for less than it may.
#[test]
fn an_upload_behind_its_answer_finishes() {
    let (upstream, door) = proxied("--client-timeout 10s --stop-within 10m");
    let mut client = door.begin("/early/a", 33, None, "2\r\n33\r\n");
    assert_eq!(client.answer().status, 200);
    door.process.signal("TERM");
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(400));
        client.send("2\r\n33\r\n");
    }
    client.send("0\r\n\r\n");
    upstream.until("end PUT /early/a 33");
    assert_eq!(door.process.ended().code, Some(0));
}

#[test]
fn a_request_that_does_not_end_holds_it_up_for_a_bounded_time() {
    let (_upstream, door, _client) = stopping("300ms");
    assert_eq!(door.process.ended().code, Some(75));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let (_upstream, door, _client) = stopping("10m");
    door.process.signal("INT");
    assert_eq!(door.process.ended().code, Some(128 + 2));
}

#[test]
fn a_connection_that_says_nothing_holds_nothing_up() {
    let (_upstream, door) = proxied("--header-timeout 10m --stop-within 10m");
    let _silent = Client::connect(door.requests);
    // The connection behind it was accepted later.
    assert_eq!(door.get("/files/a").status, 200);
    door.process.signal("TERM");
    assert_eq!(door.process.ended().code, Some(0));
}

#[test]
fn a_request_that_was_given_up_is_waited_for_too() {
    let options = "--upstream-timeout 100ms --quarantine 10m --stop-within 10m";
    let (upstream, door) = proxied(options);
    door.put("/slow/a", 33, "").is(504, "in-doubt");
    door.process.signal("TERM");
    until("it takes no more", || TcpStream::connect(door.requests).is_err());
    assert_eq!(door.page("/livez").status, 200, "it has not ended");
    upstream.open();
    assert_eq!(door.process.ended().code, Some(0));
}

#[test]
fn leases_outlive_the_service_until_their_ttl() {
    let (servers, door) = served("");
    let lease = door.lease("invoice/42", 600_000);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| door.acquire("invoice/42", r#"{"wait_ms": 60000}"#).status);
        until("it waits", || support::redis::waiting(&servers, "invoice/42") > 0);
        door.process.signal("TERM");
        assert_eq!(waiting.join().unwrap(), 503, "those who wait are told");
    });
    assert_eq!(door.process.ended().code, Some(0));
    // The client works under its lease.
    finish(run(&servers, &format!("{PATIENT} --wait 0s"), "true")).says(75, "invoice/42 is held");
    // The next one does not know it.
    assert_eq!(Door::serve(&servers, "").of(&lease, "PUT").status, 404);
}

#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    let upstream = Upstream::start();
    let (_unread, log) = full_pipe();
    let mut command = proxy(&upstream.url(), "--forget-marks-on-exit --clean-start");
    command.args(PORTS).env("RUST_LOG", "debug").stderr(log);
    let door = Door::listening(Running::start(command));
    assert_eq!(door.put("/files/a", 34, "34").status, 200);
    // Each is logged, and there are more than threads.
    for _ in 0..64 {
        assert_eq!(door.put("/files/a", 33, "33").status, 412);
    }
    assert_eq!(door.page("/livez").status, 200);
    door.process.signal("TERM");
    assert_eq!(door.process.ended().code, Some(0));
}
