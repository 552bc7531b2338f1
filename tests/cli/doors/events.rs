//! The events of a lease.

use std::thread;

use super::*;

const LONG: &str = r#"{"ttl_ms": 60000, "wait_ms": 20000}"#;
const SHORT: &str = r#"{"ttl_ms": 8000, "wait_ms": 20000}"#;

/// Reads the events of a lease.
struct Events {
    connection: TcpStream,
    names: Box<dyn Iterator<Item = String>>,
}

impl Events {
    fn of(door: &Door, lease: &Answer, query: &str) -> Events {
        let mut client = Client::connect(door.requests);
        client.send(head("GET", &format!("{}/events{query}", lease.path()), &[]));
        let answer = client.read_head().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("text/event-stream"), "{answer}");
        let connection = client.stream().try_clone().unwrap();
        let names = client.lines().filter_map(|line| line.strip_prefix("event: ").map(str::to_owned));
        Events { connection, names: Box::new(names) }
    }

    #[track_caller]
    fn next(&mut self) -> String {
        self.names.next().expect("another event")
    }
}

#[test]
fn renewals_and_the_end_are_told() {
    let servers = five();
    let door = Door::serve(&servers, "");
    let lease = door.acquire("a", LONG);
    let mut events = Events::of(&door, &lease, "");
    assert_eq!(events.next(), "renewed");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(door.of(&lease, "PUT").status, 200);
    assert_eq!(events.next(), "renewed");
    assert_eq!(door.of(&lease, "DELETE").status, 204);
    assert_eq!(events.next(), "released");
    assert_eq!(events.names.next(), None);

    let lease = door.acquire("b", SHORT);
    let mut events = Events::of(&door, &lease, "");
    assert_eq!((events.next(), events.next()), ("renewed".into(), "lost".into()));
    door.get(&format!("{}/events", lease.path())).is(404, "no-lease");
    door.get(&format!("{}/events?renew=no", lease.path())).is(400, "malformed");
}

#[test]
fn a_lease_is_renewed_for_as_long_as_its_events_are_read() {
    let servers = five();
    let door = Door::serve(&servers, "");
    let lease = door.acquire("a", r#"{"ttl_ms": 12000, "wait_ms": 20000}"#);
    let mut events = Events::of(&door, &lease, "?renew=true");
    for _ in 0..5 {
        assert_eq!(events.next(), "renewed");
    }
    door.acquire("a", "").is(409, "held");
    // Nobody reads them any more: nobody renews it.
    events.connection.shutdown(Shutdown::Both).unwrap();
    drop(events);
    until("it has ended", || door.of(&lease, "GET").status == 404);

    let lease = door.acquire("a", LONG);
    let mut events = Events::of(&door, &lease, "?renew=true");
    assert_eq!(events.next(), "renewed");
    support::cli::ask(&servers, "release --node-budget 5s --resource a --yes");
    let mut told = events.names.skip_while(|name| name == "renewed");
    assert_eq!(told.next().as_deref(), Some("superseded"));
}

/// Thirds of the TTL would leave it two more.
#[test]
fn a_renewal_that_fails_is_tried_again_soon() {
    let servers = five();
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = fencing(&servers, "serve --node-budget 1s");
    command.args(PORTS).env("RUST_LOG", "warn").stderr(log.reopen().unwrap());
    let door = Door::listening(Running::start(command));
    let lease = door.acquire("a", r#"{"ttl_ms": 30000, "wait_ms": 20000}"#);
    let mut events = Events::of(&door, &lease, "?renew=true");
    assert_eq!(events.next(), "renewed");
    drop(servers);
    let failures = || std::fs::read_to_string(&log).unwrap().matches("lease not renewed").count();
    until("it has failed five times", || failures() >= 5);
    assert_eq!(door.of(&lease, "GET").status, 200, "the lease lasts");
}

/// The events end with the process, which does not wait for them.
#[test]
fn events_do_not_hold_up_the_end() {
    let servers = five();
    let door = Door::serve(&servers, "");
    let lease = door.acquire("a", LONG);
    let mut events = Events::of(&door, &lease, "");
    assert_eq!(events.next(), "renewed");
    door.process.signal("TERM");
    assert_eq!(door.process.ended().code, Some(0));
}
