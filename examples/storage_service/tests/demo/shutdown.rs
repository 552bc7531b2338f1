use std::io::{Read, Write};

use super::service::{Answer, Service, head};
use support::cli::until;
use support::process::signal;

#[test]
fn requests_in_flight_finish() {
    let mut service = Service::start(&[]);
    // Somebody who watches the page does not hold up the end.
    let mut watcher = service.connect();
    watcher.write_all(b"GET /page/events HTTP/1.1\r\nHost: demo\r\n\r\n").unwrap();
    watcher.read_exact(&mut [0; 100]).unwrap();
    let mut request = service.connect();
    let head = head("PUT", "/files/report", &["Fencing-Token: 1", "Expect: 100-continue"], 10);
    request.write_all(head.as_bytes()).unwrap();
    // The service asks for the body: the request is with its handler.
    let mut go = [0; 25];
    request.read_exact(&mut go).unwrap();
    assert!(go.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&go));
    request.write_all(b"01234").unwrap();
    signal(service.child.id(), "TERM");
    until("no new connections", || std::net::TcpStream::connect(&service.address).is_err());
    assert!(service.child.try_wait().unwrap().is_none(), "it waits for the request");
    request.write_all(b"56789").unwrap();
    assert_eq!(Answer::read(request).status, 204);
    service.ends_well();
}

#[test]
fn whoever_waits_for_a_lease_is_told() {
    let mut service = Service::start(&[]);
    assert_eq!(service.lease("a", r#"{"ttl_ms":600000}"#).status, 201);
    let (wish, json) = (br#"{"wait_ms":60000}"#, ["Content-Type: application/json"]);
    let mut waiting = service.connect();
    waiting.write_all(head("POST", "/leases/a", &json, wish.len()).as_bytes()).unwrap();
    waiting.write_all(wish).unwrap();
    assert_eq!(service.lease("a", "").status, 409);
    signal(service.child.id(), "TERM");
    assert_eq!(Answer::read(waiting).status, 503);
    service.ends_well();
}
