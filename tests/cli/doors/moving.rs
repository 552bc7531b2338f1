//! What still moves is in flight: a service that reads, and a proxy that sends.

use std::sync::{Arc, Mutex};

use super::*;

/// How large the upload is, and in which pieces the service reads it.
const LARGE: usize = 32 << 20;
const PIECE: usize = 64 << 10;

/// A service that wakes up late with token 33, and then reads for a while.
fn slow(service: TcpListener) -> Arc<Mutex<Vec<String>>> {
    let events = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&events);
    let serve = move |mut client: Client| -> Option<()> {
        let note = |text: &str| noted.lock().unwrap().push(text.to_owned());
        let head = client.read_until("\r\n\r\n").to_lowercase();
        if head.contains("fencing-token: 33\r\n") {
            note("begin 33");
            std::thread::sleep(Duration::from_millis(1500));
            for _ in 0..LARGE / PIECE {
                client.read(PIECE)?;
                note("write 33");
                std::thread::sleep(Duration::from_millis(20));
            }
            note("end 33");
        } else {
            note("begin 34");
        }
        client.try_send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok()
    };
    std::thread::spawn(move || {
        loop {
            let (serve, client) = (serve.clone(), Client::accepted(&service));
            std::thread::spawn(move || serve(client));
        }
    });
    events
}

#[test]
fn a_late_request_is_in_flight_while_the_service_reads_it() {
    let options = "--limit 100ms --upstream-timeout 300ms --quarantine 10s";
    let (service, door) = by_hand(options);
    let events = slow(service);
    let mut client = door.begin("/a", 33, Some(LARGE), "");
    let mut sending = client.stream().try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        let piece = vec![b'x'; PIECE];
        // It may be cut off.
        let _ = (0..LARGE / PIECE).try_for_each(|_| std::io::Write::write_all(&mut sending, &piece));
    });
    client.answer().is(504, "in-doubt");
    door.lets_in("/a");
    sending.join().unwrap();
    let seen = events.lock().unwrap().clone();
    let new = seen.iter().position(|event| event == "begin 34").unwrap();
    let old = seen.iter().position(|event| event == "end 33");
    let writes = seen.iter().filter(|event| *event == "write 33").count();
    assert!(old.is_some_and(|old| old < new), "{old:?} {new}, {writes} writes");
}

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
