//! A request that the proxy has given up keeps its resource closed: cancelling does not stop it.

use std::thread::sleep;
use std::time::Instant;

use super::*;

/// Newer tokens wait for a moment only, and the quarantine outlasts the test.
const LONG: &str = "--limit 300ms --quarantine 10m --upstream-timeout 10s";

#[test]
fn a_resource_stays_closed_until_the_service_has_answered() {
    let (upstream, door) = proxied(LONG);
    door.put("/slow/late", 33, "33").is(504, "in-doubt");
    assert_eq!((door.metric("fencing_proxy_held"), door.given_up("timeout")), (1.0, 1.0));
    // The second half does not come in time.
    let half = door.begin("/half/a", 33, Some(0), "").answer();
    assert_eq!((half.status, half.text()), (200, "first"), "and then the connection broke off");
    let client = door.begin("/slow/gone", 33, Some(2), "33");
    upstream.until("begin PUT /slow/gone 33");
    client.stream().shutdown(Shutdown::Both).unwrap();
    drop(client);
    let closed = ["/slow/late", "/half/a", "/slow/gone"];
    for path in closed.repeat(3) {
        door.is_closed(path);
    }
    // Another resource is open.
    assert_eq!(door.put("/files/b", 34, "34").status, 200);
    upstream.open();
    for path in closed {
        door.lets_in(path);
        upstream.assert_order(path);
        assert_eq!(door.put(path, 33, "33").status, 412);
    }
    until("nothing is held", || door.metric("fencing_proxy_held") == 0.0);
}

#[test]
fn a_client_that_waits_no_longer_is_not_sent() {
    let (upstream, door) = proxied("--limit 10m");
    let _first = door.begin("/slow/a", 33, Some(0), "");
    upstream.until("begin PUT /slow/a 33");
    let second = door.begin("/slow/a", 34, Some(0), "");
    until("34 waits", || door.metric("fencing_proxy_requests") == 2.0);
    drop(second);
    until("34 is gone", || door.metric("fencing_proxy_requests") == 1.0);
    upstream.open();
    assert_eq!(door.put("/slow/a", 35, "").status, 200);
    let events = upstream.events();
    assert!(!events.iter().any(|event| event.ends_with(" 34")), "{events:?}");
}

/// The answer is late, the connection breaks, or the upload does, also behind its answer: the outcome is unknown.
#[test]
fn what_was_given_up_keeps_the_resource_closed_for_the_quarantine() {
    for (quarantine, ends) in [("10m", false), ("2s", true)] {
        let options = format!("--limit 100ms --quarantine {quarantine}");
        let (upstream, late) = proxied(&format!("{options} --upstream-timeout 100ms"));
        late.put("/slow/a", 33, "33").is(504, "in-doubt");
        let (broken, door) = proxied(&options);
        door.put("/cut/a", 33, "33").is(502, "in-doubt");
        let client = door.begin("/files/a", 33, Some(9), "33");
        broken.until("begin PUT /files/a 33");
        drop(client);
        let mut client = door.begin("/early/a", 33, None, "2\r\n33\r\n");
        assert_eq!(client.answer().status, 200);
        drop(client);
        until("both were given up", || door.given_up("upload") == 2.0);
        if !ends {
            late.is_closed("/slow/a");
            for path in ["/cut/a", "/files/a", "/early/a"] {
                door.is_closed(path);
            }
            continue;
        }
        // They are closed to 34 no longer, whose answer is late as well, or is cut off.
        until("the quarantine is over", || late.put("/slow/a", 34, "34").status == 504);
        upstream.until("begin PUT /slow/a 34");
        until("the quarantine is over", || door.put("/cut/a", 34, "34").status == 502);
        let sent = broken.events().iter().filter(|event| event.contains("/cut/")).count();
        assert_eq!(sent, 4, "nothing is sent twice: {:?}", broken.events());
        door.lets_in("/files/a");
        door.lets_in("/early/a");
    }
}

/// Breaks an upload of `/files/a` off, which is the one of this number.
#[track_caller]
fn break_off(upstream: &Upstream, door: &Door, number: usize) {
    let client = door.begin("/files/a", 33, Some(9), "33");
    let begun = |event: &&String| *event == "begin PUT /files/a 33";
    until("it is at the service", || upstream.events().iter().filter(begun).count() == number);
    drop(client);
    until("it was given up", || door.given_up("upload") == number as f64);
}

#[test]
fn broken_uploads_of_one_resource_take_one_place() {
    let (upstream, door) = proxied("--requests 3 --quarantine 10m --limit 100ms");
    (1..=6).for_each(|number| break_off(&upstream, &door, number));
    until("one has a place", || door.metric("fencing_proxy_requests") == 1.0);
    assert_eq!(door.metric("fencing_proxy_held"), 1.0);
    assert_eq!((door.get("/files/b").status, door.put("/files/b", 34, "34").status), (200, 200));
    door.is_closed("/files/a");
}

#[test]
fn each_broken_upload_begins_the_quarantine_anew() {
    const QUARANTINE: Duration = Duration::from_secs(4);
    for stops in [false, true] {
        let (upstream, door) = proxied("--quarantine 4s --limit 100ms --stop-within 10m");
        break_off(&upstream, &door, 1);
        sleep(QUARANTINE / 2);
        let start = Instant::now();
        break_off(&upstream, &door, 2);
        if stops {
            door.process.signal("TERM");
            assert_eq!(door.process.ended().code, Some(0));
        } else {
            door.lets_in("/files/a");
        }
        assert!(start.elapsed() >= QUARANTINE, "{:?}", start.elapsed());
    }
}

#[test]
fn the_wait_at_the_fence_is_no_time_of_the_service() {
    let (upstream, door) = proxied("--limit 60s --quarantine 10m --upstream-timeout 10s");
    assert_eq!(door.put("/slow/a", 33, "").status, 504);
    std::thread::scope(|scope| {
        let newer = scope.spawn(|| door.put("/slow/a", 34, ""));
        until("34 waits", || door.metric("fencing_proxy_requests") == 2.0);
        // For longer than the service may take.
        std::thread::sleep(Duration::from_secs(11));
        upstream.open();
        assert_eq!(newer.join().unwrap().status, 200);
    });
}

#[test]
fn what_was_not_sent_keeps_nothing_closed() {
    let door = Door::proxy("http://127.0.0.1:1", LONG);
    for token in [33, 34, 35] {
        door.put("/files/a", token, "x").is(502, "unavailable");
    }
    assert_eq!(door.get("/files/a").status, 502);
    assert_eq!(door.metric("fencing_proxy_refused_total{cause=\"no_service\"}"), 4.0);
}

#[test]
fn what_an_earlier_proxy_has_sent_keeps_everything_closed_at_the_start() {
    let upstream = Upstream::start();
    let options = "--forget-marks-on-exit --quarantine 8s --limit 100ms --stop-within 1s";
    let door = Door::start(proxy(&upstream.url(), options));
    assert_eq!(door.page("/livez").status, 200);
    let ready = door.page("/readyz");
    assert!(ready.status == 503 && ready.text().contains("in quarantine"), "{ready:?}");
    let refused = door.put("/files/a", 34, "34").is(503, "unavailable");
    assert!(refused.text().contains("in quarantine for another "), "{refused:?}");
    // No alert that marks are lost.
    let outcome =
        |outcome: &str| door.metric(&format!("fencing_admissions_total{{layer=\"fence\",outcome=\"{outcome}\"}}"));
    assert_eq!((outcome("quarantine"), outcome("unreachable")), (1.0, 0.0));
    assert_eq!(door.get("/files/a").status, 200, "reads without a token pass");
    until("it is ready", || door.page("/readyz").status == 200);
    assert_eq!(door.put("/files/a", 34, "34").status, 200);
}
