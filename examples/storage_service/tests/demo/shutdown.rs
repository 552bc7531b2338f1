use super::service::Service;
use support::cli::until;
use support::http::{Client, head};
use support::process::runs;

#[test]
fn requests_in_flight_finish() {
    let service = Service::start(&[]);
    // Somebody who watches the page does not hold up the end.
    let mut watcher = Client::connect(service.address);
    watcher.send(head("GET", "/page/events", &[]));
    watcher.read(100).unwrap();
    let mut request = Client::connect(service.address);
    let headers = [("Fencing-Token", "1"), ("Expect", "100-continue"), ("Content-Length", "10")];
    request.send(head("PUT", "/files/report", &headers));
    // The service asks for the body: the request is with its handler.
    assert!(request.read_until("\r\n\r\n").starts_with("HTTP/1.1 100"));
    request.send("01234");
    service.process.signal("TERM");
    until("no new connections", || std::net::TcpStream::connect(service.address).is_err());
    assert!(runs(service.process.pid()), "it waits for the request");
    request.send("56789");
    assert_eq!(request.answer().status, 204);
    service.process.ended().is(0);
}

#[test]
fn whoever_waits_for_a_lease_is_told() {
    let service = Service::start(&[]);
    assert_eq!(service.lease("a", r#"{"ttl_ms":600000}"#).status, 201);
    let mut waiting = Client::connect(service.address);
    let headers = [("Content-Type", "application/json"), ("Content-Length", "17")];
    waiting.send(head("POST", "/leases/a", &headers) + r#"{"wait_ms":60000}"#);
    assert_eq!(service.lease("a", "").status, 409);
    service.process.signal("TERM");
    assert_eq!(waiting.answer().status, 503);
    service.process.ended().is(0);
}
