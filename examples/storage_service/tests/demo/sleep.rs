//! What the page learns about a client that falls asleep.

use std::time::{Duration, Instant};

use serde_json::Value;
use support::http::{Client, head};

use super::service::Service;

/// The events of client 1, as they come.
fn events(service: &Service) -> impl Iterator<Item = Value> + use<> {
    let mut client = Client::connect(service.address);
    client.send(head("GET", "/page/events", &[]));
    let event = |line: String| serde_json::from_str(line.strip_prefix("data:")?).ok();
    client.lines().filter_map(event).filter(|event: &Value| event["client"] == 1)
}

/// A client that is renewed just before it falls asleep says so: what is shown to be over is over. The
/// renewal comes 1,000 ms after the grant, and the client looks at its lease each 100 ms.
#[test]
fn a_lease_that_is_shown_to_be_over_is_lost() {
    let lost = |awake| {
        let service = Service::start(&[]);
        let mut events = events(&service);
        let order = |order: &str| {
            let path = format!("/page/clients/1/{order}");
            assert_eq!(service.send("POST", &path, &[("X-Page", "1")], "").status, 202);
        };
        let end_of = |event: &Value| {
            let left = event["until"].as_u64().unwrap() - event["at"].as_u64().unwrap();
            Instant::now() + Duration::from_millis(left)
        };
        order("acquire");
        let granted = events.find(|event| event["kind"] == "granted").unwrap();
        let mut end = end_of(&granted);
        std::thread::sleep(Duration::from_millis(awake));
        order("sleep");
        for event in events.by_ref().take_while(|event| event["kind"] != "asleep") {
            end = end_of(&event);
        }
        let over = end + Duration::from_millis(60);
        std::thread::sleep(over.saturating_duration_since(Instant::now()));
        order("wake");
        events.find(|event| event["kind"] == "lost").unwrap();
    };
    std::thread::scope(|scope| {
        for awake in [1_005, 1_030, 1_060] {
            scope.spawn(move || lost(awake));
        }
    });
}
