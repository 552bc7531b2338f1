use std::collections::VecDeque;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::watch;

/// How many events are kept for those who come later.
const KEPT: usize = 400;

/// What has happened, in order. Those who watch get all of it.
pub struct Board {
    start: Instant,
    /// Which run of the service this is: the numbers begin anew with each.
    run: u32,
    events: watch::Sender<VecDeque<Event>>,
}

#[derive(Clone)]
pub struct Event {
    pub number: u64,
    /// A later one says all that it says.
    outdated: bool,
    pub text: String,
}

impl Default for Board {
    fn default() -> Board {
        let events = watch::Sender::default();
        Board { start: Instant::now(), run: std::process::id(), events }
    }
}

impl Board {
    /// Returns the milliseconds since the service came up: the time of the events.
    pub fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Puts up an event. `facts` is an object.
    pub fn put(&self, kind: &str, mut facts: Value) {
        self.events.send_modify(|events| {
            let number = events.back().map_or(1, |event| event.number + 1);
            if events.len() == KEPT {
                // The first event says how the service runs.
                let old = events.iter().position(|event| event.outdated).unwrap_or(1);
                events.remove(old);
            }
            facts["number"] = json!(number);
            facts["at"] = json!(self.now());
            facts["kind"] = json!(kind);
            let outdated = matches!(kind, "renewed" | "nodes");
            events.push_back(Event { number, outdated, text: facts.to_string() });
        });
    }

    /// Returns the name under which a browser asks for what came after an event.
    pub fn name(&self, number: u64) -> String {
        format!("{}-{number}", self.run)
    }

    /// Returns the number of the event of this name, or 0 if it is of another run.
    pub fn number(&self, name: &str) -> u64 {
        let number = name.split_once('-').filter(|(run, _)| *run == self.run.to_string());
        number.and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
    }

    /// Returns a watcher of what happens after the event of this number.
    pub fn watch(&self, seen: u64) -> Watcher {
        Watcher { events: self.events.subscribe(), seen }
    }

    pub fn is_watched(&self) -> bool {
        self.events.receiver_count() > 0
    }
}

pub struct Watcher {
    events: watch::Receiver<VecDeque<Event>>,
    seen: u64,
}

impl Watcher {
    /// Returns the next event that is still kept, when there is one.
    pub async fn next(&mut self) -> Option<Event> {
        let seen = self.seen;
        let is_next = |event: &&Event| event.number > seen;
        let come = self.events.wait_for(|events| events.iter().any(|event| is_next(&event))).await;
        let event = come.ok()?.iter().find(is_next).cloned()?;
        self.seen = event.number;
        Some(event)
    }
}
