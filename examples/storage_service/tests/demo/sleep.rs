//! What the page learns about a client that falls asleep.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::cli::until;
use support::http::{Client, head};

use super::service::Service;

/// The events of the service, and when they came.
type Events = Arc<Mutex<Vec<(Value, Instant)>>>;

fn listen(service: &Service) -> Events {
    let events = Events::default();
    let mut client = Client::connect(service.address);
    client.send(head("GET", "/page/events", &[]));
    let heard = Arc::clone(&events);
    std::thread::spawn(move || {
        for line in client.lines() {
            let event = line.strip_prefix("data:").and_then(|data| serde_json::from_str(data).ok());
            if let Some(event @ Value::Object(_)) = event {
                heard.lock().unwrap().push((event, Instant::now()));
            }
        }
    });
    events
}

/// Waits for the newest event of these kinds of client 1.
fn newest(events: &Events, kinds: &[&str]) -> (Value, Instant) {
    let of = |(event, _): &&(Value, Instant)| {
        event["client"] == 1 && kinds.iter().any(|kind| event["kind"] == *kind)
    };
    let find = || events.lock().unwrap().iter().rev().find(of).cloned();
    until(&kinds.join(" or "), || find().is_some());
    find().unwrap()
}

fn sleep_until(when: Instant) {
    std::thread::sleep(when.saturating_duration_since(Instant::now()));
}

/// A client that is renewed just before it falls asleep says so: what is shown to be over is over. The
/// renewal comes 1,000 ms after the grant, and the client looks at its lease each 100 ms.
#[test]
fn a_lease_that_is_shown_to_be_over_is_lost() {
    let lost = |awake| {
        let service = Service::start(&[]);
        let events = listen(&service);
        let order = |order: &str| {
            let path = format!("/page/clients/1/{order}");
            assert_eq!(service.send("POST", &path, &[("X-Page", "1")], "").status, 202);
        };
        order("acquire");
        let (_, granted) = newest(&events, &["granted"]);
        sleep_until(granted + Duration::from_millis(awake));
        order("sleep");
        newest(&events, &["asleep"]);
        let (last, heard) = newest(&events, &["granted", "renewed"]);
        let left = last["until"].as_u64().unwrap() - last["at"].as_u64().unwrap();
        let over = heard + Duration::from_millis(left + 60);
        sleep_until(over);
        order("wake");
        newest(&events, &["lost"]);
    };
    std::thread::scope(|scope| {
        for awake in [1_005, 1_030, 1_060] {
            scope.spawn(move || lost(awake));
        }
    });
}
