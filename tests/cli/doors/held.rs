//! A request that the proxy has given up keeps its resource closed: cancelling does not stop it.

use std::io::{BufReader, Write};
use std::net::Shutdown;

use super::client::{Answer, connect, get, head, put, read};
use super::upstream::Upstream;
use super::{Door, proxy};
use support::cli::until;

/// Newer tokens wait for a moment only, and the quarantine outlasts the test.
const LONG: [&str; 6] = ["--limit", "300ms", "--quarantine", "10m", "--upstream-timeout", "2s"];

fn assert_closed(answer: &Answer) {
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.json()["type"], "urn:fencing:unavailable");
}

/// The newer token was not let in before the older request had ended.
fn assert_order(upstream: &Upstream, path: &str) {
    let last = |what: &str| {
        let text = format!("{what} PUT {path}");
        upstream.events().iter().rposition(|event| event.starts_with(&text))
    };
    let position = |event: String| upstream.events().iter().position(|found| *found == event);
    let old = position(format!("end PUT {path} 33")).expect("the older one ended");
    let new = position(format!("begin PUT {path} 34")).expect("the newer one began");
    assert!(old < new, "{:?}", upstream.events());
    assert!(last("end") > last("begin"));
}

#[test]
fn an_upstream_that_is_late_keeps_the_resource_closed_until_it_has_answered() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &LONG);
    let late = put(door.requests, "/slow/a", 33, "33");
    assert_eq!(late.status, 504, "{late:?}");
    assert_eq!(late.json()["type"], "urn:fencing:in-doubt");
    assert_eq!(door.metric("fencing_proxy_held"), 1.0);
    assert_closed(&put(door.requests, "/slow/a", 34, "34"));
    // Another resource is open.
    assert_eq!(put(door.requests, "/files/b", 34, "34").status, 200);
    upstream.open();
    until("34 is let in", || put(door.requests, "/slow/a", 34, "34").status == 200);
    assert_order(&upstream, "/slow/a");
    assert_eq!(put(door.requests, "/slow/a", 33, "33").status, 412);
    assert_eq!(door.metric("fencing_proxy_held"), 0.0);
    assert_eq!(door.metric("fencing_proxy_given_up_total{cause=\"timeout\"}"), 1.0);
}

#[test]
fn a_client_that_goes_away_does_not_release_the_resource() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &["--limit", "300ms", "--quarantine", "10m"]);
    let mut client = connect(door.requests);
    let headers = [("Fencing-Token", "33"), ("Content-Length", "2")];
    client.write_all((head("PUT", "/slow/a", &headers) + "33").as_bytes()).unwrap();
    upstream.until("begin PUT /slow/a 33");
    client.shutdown(Shutdown::Both).unwrap();
    drop(client);
    for _ in 0..3 {
        assert_closed(&put(door.requests, "/slow/a", 34, "34"));
    }
    upstream.open();
    until("34 is let in", || put(door.requests, "/slow/a", 34, "34").status == 200);
    assert_order(&upstream, "/slow/a");
}

#[test]
fn a_client_that_waits_no_longer_is_not_sent() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &["--limit", "10m"]);
    let begin = |token: &str| {
        let mut client = connect(door.requests);
        let headers = [("Fencing-Token", token), ("Content-Length", "0")];
        client.write_all(head("PUT", "/slow/a", &headers).as_bytes()).unwrap();
        client
    };
    let _first = begin("33");
    upstream.until("begin PUT /slow/a 33");
    let second = begin("34");
    until("34 waits", || door.metric("fencing_proxy_requests") == 2.0);
    drop(second);
    until("34 is gone", || door.metric("fencing_proxy_requests") == 1.0);
    upstream.open();
    assert_eq!(put(door.requests, "/slow/a", 35, "").status, 200);
    let events = upstream.events();
    assert!(!events.iter().any(|event| event.ends_with(" 34")), "{events:?}");
}

#[test]
fn an_answer_that_never_comes_keeps_the_resource_closed_for_the_quarantine() {
    let upstream = Upstream::start();
    let options = ["--limit", "100ms", "--quarantine", "6s", "--upstream-timeout", "100ms"];
    let door = Door::proxy(&upstream, &options);
    assert_eq!(put(door.requests, "/slow/a", 33, "33").status, 504);
    assert_closed(&put(door.requests, "/slow/a", 34, "34"));
    // It is closed to 34 no longer, whose answer is late as well.
    until("the quarantine is over", || put(door.requests, "/slow/a", 34, "34").status == 504);
    assert!(upstream.events().iter().any(|event| event == "begin PUT /slow/a 34"));
}

#[test]
fn a_connection_that_breaks_says_nothing_about_the_work() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &["--limit", "100ms", "--quarantine", "6s"]);
    let cut = put(door.requests, "/cut/a", 33, "33");
    assert_eq!((cut.status, cut.json()["type"].as_str()), (502, Some("urn:fencing:in-doubt")));
    assert_closed(&put(door.requests, "/cut/a", 34, "34"));
    until("the quarantine is over", || put(door.requests, "/cut/a", 34, "34").status == 502);
    assert_eq!(upstream.events().len(), 4, "nothing is sent twice: {:?}", upstream.events());
}

#[test]
fn an_answer_that_breaks_off_keeps_the_resource_closed() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &LONG);
    // The second half does not come in time.
    let headers = [("Fencing-Token", "33"), ("Content-Length", "0")];
    let mut client = connect(door.requests);
    client.write_all(head("PUT", "/half/a", &headers).as_bytes()).unwrap();
    let half = read(&mut BufReader::new(client)).unwrap();
    assert_eq!((half.status, half.text()), (200, "first"), "and then the connection broke off");
    assert_closed(&put(door.requests, "/half/a", 34, ""));
    upstream.open();
    until("34 is let in", || put(door.requests, "/half/a", 34, "").status == 200);
    assert_order(&upstream, "/half/a");
}

#[test]
fn an_upload_that_breaks_off_keeps_the_resource_closed() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &["--limit", "100ms", "--quarantine", "6s"]);
    let mut client = connect(door.requests);
    let headers = [("Fencing-Token", "33"), ("Content-Length", "9")];
    client.write_all((head("PUT", "/files/a", &headers) + "33").as_bytes()).unwrap();
    upstream.until("begin PUT /files/a 33");
    drop(client);
    until("it was given up", || {
        door.metric("fencing_proxy_given_up_total{cause=\"upload\"}") == 1.0
    });
    assert_closed(&put(door.requests, "/files/a", 34, "34"));
    until("the quarantine is over", || put(door.requests, "/files/a", 34, "34").status == 200);
}

#[test]
fn the_wait_at_the_fence_is_no_time_of_the_service() {
    let upstream = Upstream::start();
    let options = ["--limit", "30s", "--quarantine", "10m", "--upstream-timeout", "2s"];
    let door = Door::proxy(&upstream, &options);
    assert_eq!(put(door.requests, "/slow/a", 33, "").status, 504);
    std::thread::scope(|scope| {
        let newer = scope.spawn(|| put(door.requests, "/slow/a", 34, ""));
        until("34 waits", || door.metric("fencing_proxy_requests") == 2.0);
        // For longer than the service may take.
        std::thread::sleep(std::time::Duration::from_millis(2500));
        upstream.open();
        assert_eq!(newer.join().unwrap().status, 200);
    });
}

#[test]
fn what_was_not_sent_keeps_nothing_closed() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = proxy(&format!("http://{gone}"));
    command.args(["--forget-marks-on-exit", "--clean-start"]).args(LONG);
    let door = Door::start(command);
    for token in [33, 34, 35] {
        let answer = put(door.requests, "/files/a", token, "x");
        assert_eq!(answer.status, 502, "{answer:?}");
        assert_eq!(answer.json()["type"], "urn:fencing:unavailable");
    }
    assert_eq!(get(door.requests, "/files/a").status, 502);
    assert_eq!(door.metric("fencing_proxy_refused_total{cause=\"no_service\"}"), 4.0);
}

#[test]
fn what_an_earlier_proxy_has_sent_keeps_everything_closed_at_the_start() {
    let upstream = Upstream::start();
    let mut command = proxy(&upstream.url());
    command.args(["--forget-marks-on-exit", "--quarantine", "8s", "--limit", "100ms"]);
    command.args(["--stop-within", "1s"]);
    let door = Door::start(command);
    assert_eq!(get(door.status, "/livez").status, 200);
    let ready = get(door.status, "/readyz");
    assert!(ready.status == 503 && ready.text().contains("in quarantine"), "{ready:?}");
    let refused = put(door.requests, "/files/a", 34, "34");
    assert_closed(&refused);
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("in quarantine for another "), "{detail}");
    // No alert that marks are lost.
    let outcome = |outcome: &str| {
        door.metric(&format!("fencing_admissions_total{{layer=\"fence\",outcome=\"{outcome}\"}}"))
    };
    assert_eq!((outcome("quarantine"), outcome("unreachable")), (1.0, 0.0));
    assert_eq!(get(door.requests, "/files/a").status, 200, "reads without a token pass");
    until("it is ready", || get(door.status, "/readyz").status == 200);
    assert_eq!(put(door.requests, "/files/a", 34, "34").status, 200);
}
