//! Clients that take no answer, or are gone without a word, pin nothing.

use std::thread::{self, JoinHandle};

use super::*;

/// The answer of an HTTP/2 server, as far as its client takes it.
struct Taken {
    has_head: bool,
    data: Vec<u8>,
    is_whole: bool,
}

/// Sends a GET over HTTP/2. The client takes `window` bytes of the answer; the rest after `pause`, or never if that is
/// `None`. It answers pings until the end. With a window of 0 it sends a further GET every second.
fn takes(address: SocketAddr, path: &str, window: u32, mut pause: Option<Duration>) -> JoinHandle<Taken> {
    let path = path.as_bytes();
    // GET and http, which have indices, a host, and the path.
    let block = [&[0x82, 0x86, 0x01, 1, b'a', 0x04, u8::try_from(path.len()).unwrap()], path].concat();
    let get =
        move |stream: u8| [&[0, 0, u8::try_from(block.len()).unwrap(), 1, 5, 0, 0, 0, stream], &block[..]].concat();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04";
    let mut client = Client::connect(address);
    client.send([&preface[..], &window.to_be_bytes(), &get(1)].concat());
    let mut streams = (3..=255).step_by(2);
    thread::spawn(move || {
        let mut taken = Taken { has_head: false, data: Vec::new(), is_whole: false };
        while let Some(frame) = client.read(9) {
            let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]) as usize;
            let Some(body) = client.read(length) else { break };
            let is_marked = frame[4] & 1 == 1;
            match frame[3] {
                0 => {
                    taken.data.extend(body);
                    taken.is_whole |= is_marked;
                    if let Some(pause) = pause.take() {
                        thread::sleep(pause);
                        client.send([0, 0, 4, 8, 0, 0, 0, 0, 1, 0, 1, 0, 0]);
                    }
                }
                1 => {
                    taken.has_head = true;
                    if let (0, Some(stream)) = (window, streams.next()) {
                        thread::sleep(Duration::from_secs(1));
                        let _ = client.try_send(get(stream));
                    }
                }
                6 if !is_marked => {
                    let pong = [&[0, 0, 8, 6, 1, 0, 0, 0, 0][..], &body].concat();
                    let _ = client.try_send(pong);
                }
                _ => {}
            }
        }
        taken
    })
}

#[test]
fn an_answer_that_its_client_does_not_take_pins_no_connection() {
    let (_upstream, door) = proxied("--connections 2 --client-timeout 2s");
    for (address, path) in [(door.requests, "/files/a"), (door.status, "/metrics")] {
        let clients = [(); 2].map(|()| takes(address, path, 0, None));
        until("both are cut off", || clients.iter().all(JoinHandle::is_finished));
        for client in clients {
            let taken = client.join().unwrap();
            assert!(taken.has_head && taken.data.is_empty() && !taken.is_whole);
        }
        assert_eq!(ask(address, "GET", path, &[], "").status, 200);
    }
}

#[test]
fn an_answer_that_its_client_does_not_take_holds_up_no_end() {
    // Of the second one, hyper knows no more: the rest is in a buffer.
    for window in [0, 1] {
        let (upstream, door) = proxied("--client-timeout 2s --stop-within 10m");
        let _client = takes(door.requests, "/files/a", window, None);
        upstream.until("end GET /files/a");
        door.process.signal("TERM");
        assert_eq!(door.process.ended().code, Some(0));
    }
}

/// The end of the answer is in a buffer, and the connection has no request in progress.
#[test]
fn a_client_that_reads_slowly_gets_the_end_of_its_answer() {
    let (_upstream, door) = proxied("--client-timeout 60s --header-timeout 1s");
    let client = takes(door.requests, "/files/a", 1, Some(Duration::from_secs(3)));
    // The connection ends by itself, without a further request.
    assert!(client.join().unwrap().is_whole);
}

#[test]
fn a_client_that_waits_for_the_service_is_not_cut_off() {
    let (upstream, door) = proxied("--client-timeout 6s");
    let client = takes(door.requests, "/half/a", 1 << 16, None);
    upstream.until("begin GET /half/a");
    thread::sleep(Duration::from_secs(15));
    upstream.open();
    until("the second half has come", || door.metric("fencing_proxy_requests") == 0.0);
    door.process.signal("TERM");
    let taken = client.join().unwrap();
    assert!(taken.is_whole && taken.data == b"firstthird");
}

/// Its network is down: no end of its connection comes. In a namespace the test may take it down.
#[test]
fn the_lease_of_a_machine_that_is_gone_is_not_renewed_for_long() {
    if !is_in_namespace("doors::stalls::the_lease_of_a_machine_that_is_gone_is_not_renewed_for_long", "") {
        return;
    }
    let door = Door::serve("memory:", "--client-timeout 2s");
    let lease = door.lease("a", 60_000);
    let mut reader = Client::connect(door.requests);
    reader.send(head("GET", &format!("{}/events?renew=true", lease.path()), &[]));
    reader.read_until("event: renewed\n");
    // A client whose request is answered by nothing yet.
    let mut waiter = Client::connect(door.requests);
    let wish = r#"{"wait_ms": 60000}"#;
    let length = wish.len().to_string();
    let headers = [("Content-Type", "application/json"), ("Content-Length", length.as_str())];
    waiter.send(head("POST", "/leases/a", &headers) + wish);
    // The server's side of the connections that are open (01).
    let port = format!(":{:04X}", door.requests.port());
    let open = || {
        let all = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let is_open = |line: &&str| {
            let fields: Vec<_> = line.split_whitespace().collect();
            fields[1].ends_with(&port) && fields[3] == "01"
        };
        all.lines().filter(is_open).count()
    };
    until("both are open", || open() == 2);
    assert!(Command::new("ip").args(["link", "set", "lo", "down"]).status().unwrap().success());
    until("both are cut off", || open() == 0);
}
