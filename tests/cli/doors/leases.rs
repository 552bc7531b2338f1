//! Leases over HTTP: who holds one, for how long, and what becomes of those whose client goes away; and their events.

use std::thread;
use std::time::Instant;

use support::etcd::EtcdCluster;

use super::*;

const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn a_lease_is_acquired_renewed_and_released() {
    let mut servers = five();
    servers[0].kill();
    let door = Door::serve(&servers, "");
    let first = door.lease("files/a%20b", 60_000);
    let (json, token) = (first.json(), first.token());
    let sequencer = format!("{token} files/a b");
    assert_eq!((&json["resource"], &json["ttl_ms"]), (&"files/a b".into(), &60000.into()));
    assert_eq!(json["sequencer"], sequencer);
    assert_eq!(first.header("fencing-token"), Some(&*token.to_string()));
    assert_eq!(first.header("fencing-sequencer"), Some(&*sequencer));
    assert_eq!(first.header("location"), Some(&*first.path()));
    assert_eq!(json["lease_id"].as_str().unwrap().len(), 32);
    assert_eq!(door.metric("fencing_serve_leases"), 1.0);

    let held = door.acquire("files/a%20b", "").is(409, "held");
    let after: u64 = held.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=61).contains(&after), "{after}");

    let shown = door.of(&first, "GET");
    assert_eq!((shown.status, shown.token()), (200, token));
    let renewed = door.of(&first, "PUT");
    assert_eq!(renewed.status, 200, "{renewed:?}");
    assert!(renewed.json()["valid_for_ms"].as_u64().unwrap() > 30_000);
    assert_eq!(door.of(&first, "DELETE").status, 204);
    for method in ["GET", "PUT", "DELETE"] {
        door.of(&first, method).is(404, "no-lease");
    }
    let second = door.acquire("files/a%20b", r#"{"wait_ms": 20000}"#);
    assert!(second.token() > token);
    assert_eq!(door.metric("fencing_serve_leases"), 1.0);
}

/// In etcd each TTL has a session, which all clients share.
#[test]
fn many_ttls_are_few_sessions() {
    let etcd = EtcdCluster::start();
    let door = Door::serve(&etcd.url(), "--longest-ttl 550s");
    for ttl in 20_001..=20_008 {
        assert_eq!(door.lease(&format!("a/{ttl}"), ttl).json()["ttl_ms"], 30_000);
    }
    let sessions = etcd.ctl(&["lease", "list"]);
    assert!(sessions.starts_with("found 1 leases"), "{sessions}");
    // As long as any may last.
    assert_eq!(door.lease("b", 530_000).json()["ttl_ms"], 550_000);
}

#[test]
fn a_client_that_hangs_up_while_it_waits_leaves_no_lock_behind() {
    let (servers, door) = served("");
    let wish = r#"{"ttl_ms": 600000, "wait_ms": 60000}"#;
    let first = door.acquire("a", wish);
    let mut waiting = Client::connect(door.requests);
    let length = wish.len().to_string();
    waiting.send(head("POST", "/leases/a", &[JSON, ("Content-Length", &length)]) + wish);
    until("it waits", || support::redis::waiting(&servers, "a") > 0);
    waiting.stream().shutdown(Shutdown::Both).unwrap();
    drop(waiting);
    assert_eq!(door.of(&first, "DELETE").status, 204);
    // With the TTL of the one that has gone, this would be held for ten minutes.
    until("it is free", || door.acquire("a", "").status == 201);
    assert_eq!(door.metric("fencing_serve_leases"), 1.0);
}

/// Probes reach the nodes once a second at most, however many there are.
#[test]
fn a_probe_is_not_a_question_to_the_nodes_and_without_a_quorum_it_says_so() {
    let (mut servers, door) = served("");
    until("it is ready", || door.page("/readyz").text() == "ready\n");
    let asked = || {
        let stats = servers[0].cli(&["INFO", "commandstats"]);
        let scripts = stats.lines().filter(|line| line.starts_with("cmdstat_eval"));
        let calls = scripts.filter_map(|line| line.split_once(":calls=")?.1.split(',').next());
        calls.map(|calls| calls.parse::<u64>().unwrap()).sum::<u64>()
    };
    let (before, start) = (asked(), Instant::now());
    for _ in 0..50 {
        door.page("/readyz");
    }
    let (asked, seconds) = (asked() - before, start.elapsed().as_secs() + 2);
    assert!(asked <= 25 + 2 * seconds, "{asked} questions in {seconds} s");

    let limit = |bytes: &str| {
        servers.iter().take(3).for_each(|server| drop(server.cli(&["CONFIG", "SET", "maxmemory", bytes])))
    };
    limit("1");
    until("no node has room", || door.page("/readyz").text().contains("out of memory"));
    limit("0");
    until("it is ready", || door.page("/readyz").text() == "ready\n");
    servers.iter_mut().take(3).for_each(|server| server.kill());
    let none = door.acquire("a", "");
    assert_eq!((none.status, none.header("retry-after")), (503, Some("1")), "{none:?}");
    assert!(!none.text().contains("redis.sock"), "the servers are no client's concern: {none:?}");
    until("it is not ready", || {
        let ready = door.page("/readyz");
        ready.status == 503 && ready.text().starts_with("no lease is granted now: ")
    });
    assert_eq!(door.page("/livez").status, 200);
}

#[test]
fn a_web_page_gets_no_lease() {
    let (_servers, door) = served("");
    let ask = |name: &str, headers: &[(&str, &str)], body: &str| {
        door.ask("POST", &format!("/leases/{name}"), headers, body).status
    };
    // What a browser adds for a page of any origin, also of the name that the page has made of this address.
    let origins = ["https://evil.example", "null", "http://test"].map(|origin| ("Origin", origin));
    let sites = ["cross-site", "same-site", "same-origin"].map(|site| ("Sec-Fetch-Site", site));
    for header in origins.into_iter().chain(sites) {
        assert_eq!(ask("a", &[header, JSON], "{}"), 403, "{header:?}");
        assert_eq!(ask("a", &[header], ""), 403, "{header:?}");
    }
    // A form needs no consent of the browser's.
    for kind in ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        assert_eq!(ask("a", &[("Content-Type", kind)], "{}"), 415, "{kind}");
    }
    // Typed into a browser, and from programs.
    assert_eq!(ask("a", &[("Sec-Fetch-Site", "none")], ""), 201);
    let kind = ("Content-Type", "Application/JSON; charset=utf-8");
    assert_eq!(ask("b", &[kind], "{}"), 201);
    assert_eq!(ask("c", &[kind], "[1000, 0]"), 400);
}

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
fn renewals_and_the_end_are_told_and_events_do_not_hold_up_the_end_of_the_process() {
    let (_servers, door) = served("");
    let lease = door.lease("a", 60_000);
    let mut events = Events::of(&door, &lease, "");
    assert_eq!(events.next(), "renewed");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(door.of(&lease, "PUT").status, 200);
    assert_eq!(events.next(), "renewed");
    assert_eq!(door.of(&lease, "DELETE").status, 204);
    assert_eq!(events.next(), "released");
    assert_eq!(events.names.next(), None);

    let lease = door.lease("b", 8000);
    let mut events = Events::of(&door, &lease, "");
    assert_eq!((events.next(), events.next()), ("renewed".into(), "lost".into()));
    door.get(&format!("{}/events", lease.path())).is(404, "no-lease");
    door.get(&format!("{}/events?renew=no", lease.path())).is(400, "malformed");

    let lease = door.lease("a", 60_000);
    let mut events = Events::of(&door, &lease, "");
    assert_eq!(events.next(), "renewed");
    door.process.signal("TERM");
    assert_eq!(door.process.ended().code, Some(0));
}

#[test]
fn a_lease_is_renewed_for_as_long_as_its_events_are_read() {
    let (servers, door) = served("");
    let lease = door.lease("a", 12_000);
    let mut events = Events::of(&door, &lease, "?renew=true");
    for _ in 0..5 {
        assert_eq!(events.next(), "renewed");
    }
    door.acquire("a", "").is(409, "held");
    // Nobody reads them any more: nobody renews it.
    events.connection.shutdown(Shutdown::Both).unwrap();
    drop(events);
    until("it has ended", || door.of(&lease, "GET").status == 404);

    let lease = door.lease("a", 60_000);
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
    let lease = door.lease("a", 30_000);
    let mut events = Events::of(&door, &lease, "?renew=true");
    assert_eq!(events.next(), "renewed");
    drop(servers);
    let failures = || std::fs::read_to_string(&log).unwrap().matches("lease not renewed").count();
    until("it has failed five times", || failures() >= 5);
    assert_eq!(door.of(&lease, "GET").status, 200, "the lease lasts");
}
