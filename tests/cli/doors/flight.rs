//! An answer, or the end of a client, is not the end of a request. What still moves is in flight.

use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_request_that_was_answered_early_is_in_flight_until_its_upload_has_ended() {
    let (upstream, door) = proxied("--limit 300ms --quarantine 10m");
    for path in ["/early/two", "/early/chunks", "/early/none"] {
        let mut client = door.begin(path, 33, None, "2\r\n33\r\n");
        // The client has its answer as a whole, while it sends.
        let early = client.answer();
        let text = if path == "/early/none" { "" } else { "ok" };
        assert_eq!((early.status, early.text()), (200, text), "{path}");
        for _ in 0..2 {
            door.is_closed(path);
            client.send("2\r\n33\r\n");
        }
        assert_eq!(door.metric("fencing_proxy_requests"), 1.0, "{path}");
        client.send("0\r\n\r\n");
        door.lets_in(path);
        upstream.until(&format!("end PUT {path} 33"));
    }
    assert_eq!(door.given_up("upload"), 0.0);
}

#[test]
fn an_upload_is_cut_off_when_a_newer_token_has_come() {
    for quarantine in ["1s", "10m"] {
        let options = "--limit 100ms --upload-grace 100ms --quarantine";
        let (upstream, door) = proxied(&format!("{options} {quarantine}"));
        // Nothing newer comes there.
        let mut other = door.begin("/files/b", 33, None, "2\r\n33\r\n");
        let mut old = door.begin("/files/a", 33, None, "2\r\n33\r\n");
        upstream.until("begin PUT /files/a 33");
        door.is_closed("/files/a");
        old.answer().is(503, "superseded");
        until("it is counted", || door.given_up("superseded") == 1.0);
        if quarantine == "1s" {
            door.lets_in("/files/a");
        } else {
            // Nobody knows what the service does with what it has.
            door.is_closed("/files/a");
        }
        other.send("0\r\n\r\n");
        assert_eq!(other.answer().status, 200);
    }
}

#[test]
fn shadow_mode_cuts_no_upload_off() {
    let (upstream, door) = proxied("--shadow --upload-grace 100ms");
    let mut old = door.begin("/files/a", 33, None, "2\r\n33\r\n");
    upstream.until("begin PUT /files/a 33");
    assert_eq!(door.put("/files/a", 34, "34").status, 200);
    // Behind a fence it would be over by then.
    std::thread::sleep(Duration::from_secs(2));
    old.send("0\r\n\r\n");
    assert_eq!(old.answer().status, 200);
}

#[test]
fn what_a_service_reads_behind_its_answer_reaches_it() {
    // More than the buffer of its own system takes.
    const LENGTH: usize = 400_000;
    let (service, door) = by_hand("");
    let mut client = door.begin("/files/a", 33, Some(LENGTH), "");
    let mut service = Client::accepted(&service);
    service.read_until("\r\n\r\n");
    service.send(OK);
    assert_eq!(client.answer().status, 200);
    client.send(vec![b'x'; LENGTH]);
    until("the proxy has passed it on", || door.metric("fencing_proxy_requests") == 0.0);
    assert_eq!(service.rest().len(), LENGTH);
}

#[test]
fn an_upload_that_the_service_does_not_read_is_stopped() {
    // It answers in the middle of the upload, and reads nothing more.
    let options = "--upstream-timeout 10s --quarantine 1s --client-timeout 10m";
    let (service, door) = by_hand(options);
    let mut client = door.begin("/files/a", 33, None, "2\r\n33\r\n");
    let mut service = Client::accepted(&service);
    service.read_until("2\r\n33\r\n");
    service.send(OK);
    assert_eq!(client.answer().status, 200);
    until("it was given up", || door.metric("fencing_proxy_requests") == 0.0);
    until("it is counted", || door.given_up("upload") == 1.0);
    // What the client sends now comes behind newer requests, and goes nowhere.
    let _ = client.try_send("4\r\nlate\r\n0\r\n\r\n");
    assert_eq!(service.rest(), b"");
}

#[test]
fn a_client_that_goes_away_takes_nothing_from_the_hold() {
    let (upstream, door) = proxied("--limit 800ms --quarantine 6s");
    let client = door.begin("/torn/a", 33, Some(0), "");
    // The answer has begun.
    assert!(client.stream().peek(&mut [0]).unwrap() > 0);
    drop(client);
    // The quarantine has not begun: the service still answers.
    (0..3).for_each(|_| door.is_closed("/torn/a"));
    assert_eq!(door.metric("fencing_proxy_held"), 0.0);
    upstream.open();
    until("the connection broke", || door.metric("fencing_proxy_held") == 1.0);
    door.is_closed("/torn/a");
    door.lets_in("/torn/a");
}

#[test]
fn a_connection_that_breaks_behind_an_early_answer_says_nothing_about_the_work() {
    for (polite, status) in [("", 503), ("Connection: close\r\n", 504)] {
        let options = "--upstream-timeout 10s --quarantine 10m --limit 100ms --client-timeout 10m";
        let (service, door) = by_hand(options);
        let mut client = door.begin("/files/a", 33, None, "2\r\n33\r\n");
        let mut service = Client::accepted(&service);
        service.read_until("2\r\n33\r\n");
        service.send(OK.replace("Content", &format!("{polite}Content")));
        assert_eq!(client.answer().status, 200);
        drop(service);
        match status {
            503 => until("it was given up", || door.given_up("upload") == 1.0),
            _ => until("it has ended", || door.metric("fencing_proxy_requests") == 0.0),
        }
        // Let in, it gets no answer here.
        assert_eq!(door.put("/files/a", 34, "34").status, status, "{polite}");
    }
}

/// The service reads all that comes: a late request is in flight for as long as its upload moves.
#[test]
fn a_client_that_slept_in_its_upload_may_go_on() {
    let options = "--limit 100ms --quarantine 10s --upstream-timeout 300ms";
    let (upstream, door) = proxied(options);
    let mut client = door.begin("/files/a", 33, Some(24), "xx");
    client.answer().is(504, "in-doubt");
    // For longer than the quarantine in all.
    for _ in 0..22 {
        door.is_closed("/files/a");
        client.send("x");
        std::thread::sleep(Duration::from_millis(500));
    }
    door.lets_in("/files/a");
    upstream.assert_order("/files/a");
}

#[test]
fn a_start_covers_what_an_earlier_proxy_still_sends() {
    let upstream = Upstream::start();
    let options = "--quarantine 3s --upstream-timeout 20s --stop-within 30s";
    let first = Door::proxy(&upstream.url(), options);
    let mut client = first.begin("/files/a", 33, Some(8), "x");
    upstream.until("begin PUT /files/a 33");
    first.process.signal("TERM");
    until("its port is free", || TcpStream::connect(first.requests).is_err());
    let options = format!("{options} --forget-marks-on-exit --limit 100ms");
    let second = Door::start(proxy(&upstream.url(), &options));
    let sending = std::thread::spawn(move || {
        // For longer than the quarantine alone.
        for _ in 0..7 {
            std::thread::sleep(Duration::from_millis(500));
            client.send("x");
        }
        client.answer().status
    });
    second.lets_in("/files/a");
    assert_eq!(sending.join().unwrap(), 200);
    upstream.assert_order("/files/a");
    assert_eq!(first.process.ended().code, Some(0));
}
