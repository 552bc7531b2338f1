//! What still moves is in flight: a service that reads, and a proxy that sends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::client::{connect, head, put, read};
use super::upstream::Upstream;
use super::{Door, proxy};
use support::cli::until;

/// How large the upload is, and in which pieces the service reads it.
const LARGE: usize = 32 << 20;
const PIECE: usize = 64 << 10;

/// A service that wakes up late with token 33, and then reads for a while.
fn slow(listener: TcpListener) -> Arc<Mutex<Vec<String>>> {
    let events = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&events);
    let serve = move |stream: TcpStream| -> Option<()> {
        let note = |text: String| noted.lock().unwrap().push(text);
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            stream.read_line(&mut head).ok().filter(|read| *read > 0)?;
        }
        let old = head.to_lowercase().contains("fencing-token: 33\r\n");
        note(format!("begin {}", if old { 33 } else { 34 }));
        if old {
            std::thread::sleep(Duration::from_millis(1500));
            let mut piece = vec![0; PIECE];
            for _ in 0..LARGE / PIECE {
                stream.read_exact(&mut piece).ok()?;
                note("write 33".to_owned());
                std::thread::sleep(Duration::from_millis(8));
            }
            note("end 33".to_owned());
        }
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok()
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    events
}

#[test]
fn a_late_request_is_in_flight_while_the_service_reads_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = proxy(&format!("http://{}", listener.local_addr().unwrap()));
    command.args(["--forget-marks-on-exit", "--clean-start", "--limit", "100ms"]);
    command.args(["--upstream-timeout", "300ms", "--quarantine", "5s"]);
    let events = slow(listener);
    let door = Door::start(command);
    let client = connect(door.requests);
    let mut sending = client.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        let length = LARGE.to_string();
        let head = head("PUT", "/a", &[("Fencing-Token", "33"), ("Content-Length", &length)]);
        sending.write_all(head.as_bytes()).unwrap();
        let piece = vec![b'x'; PIECE];
        // It may be cut off.
        let _ = (0..LARGE / PIECE).try_for_each(|_| sending.write_all(&piece));
    });
    let late = read(&mut BufReader::new(client)).unwrap();
    assert_eq!(late.status, 504, "{late:?}");
    until("34 is let in", || put(door.requests, "/a", 34, "").status == 200);
    sending.join().unwrap();
    let seen = events.lock().unwrap().clone();
    let new = seen.iter().position(|event| event == "begin 34").unwrap();
    let old = seen.iter().position(|event| event == "end 33");
    let writes = seen.iter().filter(|event| *event == "write 33").count();
    assert!(old.is_some_and(|old| old < new), "{old:?} {new}, {writes} writes");
}

#[test]
fn a_client_that_slept_in_its_upload_may_go_on() {
    let upstream = Upstream::start();
    let options = ["--limit", "100ms", "--quarantine", "5s", "--upstream-timeout", "300ms"];
    let door = Door::proxy(&upstream, &options);
    let mut client = connect(door.requests);
    let headers = [("Fencing-Token", "33"), ("Content-Length", "14")];
    client.write_all((head("PUT", "/files/a", &headers) + "xx").as_bytes()).unwrap();
    let late = read(&mut BufReader::new(client.try_clone().unwrap())).unwrap();
    assert_eq!(late.status, 504, "{late:?}");
    // For longer than the quarantine in all.
    for _ in 0..12 {
        assert_eq!(put(door.requests, "/files/a", 34, "").status, 503);
        client.write_all(b"x").unwrap();
        std::thread::sleep(Duration::from_millis(500));
    }
    until("34 is let in", || put(door.requests, "/files/a", 34, "").status == 200);
    let events = upstream.events();
    let position = |text: &str| events.iter().position(|event| event == text);
    let (old, new) = (position("end PUT /files/a 33"), position("begin PUT /files/a 34"));
    assert!(old.is_some() && old < new, "{events:?}");
}

#[test]
fn a_start_covers_what_an_earlier_proxy_still_sends() {
    let upstream = Upstream::start();
    let options = ["--quarantine", "3s", "--upstream-timeout", "3s", "--stop-within", "30s"];
    let first = Door::proxy(&upstream, &options);
    let mut client = connect(first.requests);
    let headers = [("Fencing-Token", "33"), ("Content-Length", "8")];
    client.write_all((head("PUT", "/files/a", &headers) + "x").as_bytes()).unwrap();
    upstream.until("begin PUT /files/a 33");
    first.signal("TERM");
    until("its port is free", || TcpStream::connect(first.requests).is_err());
    let mut command = proxy(&upstream.url());
    command.args(["--forget-marks-on-exit", "--limit", "100ms"]).args(options);
    let second = Door::start(command);
    let sending = std::thread::spawn(move || {
        for _ in 0..7 {
            std::thread::sleep(Duration::from_millis(500));
            client.write_all(b"x").unwrap();
        }
        read(&mut BufReader::new(client)).unwrap().status
    });
    until("34 is let in", || put(second.requests, "/files/a", 34, "").status == 200);
    assert_eq!(sending.join().unwrap(), 200);
    let events = upstream.events();
    let position = |text: &str| events.iter().position(|event| event == text);
    let (old, new) = (position("end PUT /files/a 33"), position("begin PUT /files/a 34"));
    assert!(old.is_some() && old < new, "{events:?}");
    assert_eq!(first.ended().code, Some(0));
}
