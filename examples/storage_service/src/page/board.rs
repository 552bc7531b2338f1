use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

/// How many events are kept for those who come later.
const KEPT: usize = 400;

/// What has happened, in order. Those who watch get all of it.
pub struct Board {
    start: Instant,
    /// Which run of the service this is: the numbers begin anew with each.
    run: u32,
    events: Mutex<VecDeque<Event>>,
    newest: watch::Sender<u64>,
    watchers: AtomicUsize,
}

#[derive(Clone)]
pub struct Event {
    pub number: u64,
    /// Later ones tell all that this one told.
    outdated: bool,
    pub text: String,
}

impl Default for Board {
    fn default() -> Board {
        let (start, run) = (Instant::now(), std::process::id());
        let (events, newest, watchers) = Default::default();
        Board { start, run, events, newest, watchers }
    }
}

impl Board {
    /// Returns the milliseconds since the service came up: the time of the events.
    pub fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Puts up an event. `facts` is an object.
    pub fn put(&self, kind: &str, facts: Value) {
        let mut events = self.events();
        let number = events.back().map_or(1, |event| event.number + 1);
        let mut all = Map::from_iter([
            ("number".into(), json!(number)),
            ("at".into(), json!(self.now())),
            ("kind".into(), json!(kind)),
        ]);
        if let Value::Object(facts) = facts {
            all.extend(facts);
        }
        if events.len() == KEPT {
            // The first event says how the service runs.
            let old = events.iter().position(|event| event.outdated).unwrap_or(1);
            events.remove(old);
        }
        let outdated = matches!(kind, "renewed" | "nodes");
        events.push_back(Event { number, outdated, text: Value::Object(all).to_string() });
        self.newest.send_replace(number);
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

    /// Returns the first event after this number that is still kept.
    fn after(&self, number: u64) -> Option<Event> {
        self.events().iter().find(|event| event.number > number).cloned()
    }

    fn events(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.events.lock()
    }

    pub fn is_watched(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) > 0
    }
}

/// One who watches, until dropped.
pub struct Watcher {
    board: Arc<Board>,
    newest: watch::Receiver<u64>,
    seen: u64,
}

impl Watcher {
    /// Returns a watcher of what happens after the event of this number.
    pub fn new(board: Arc<Board>, seen: u64) -> Watcher {
        board.watchers.fetch_add(1, Ordering::Relaxed);
        let newest = board.newest.subscribe();
        Watcher { board, newest, seen }
    }

    pub async fn next(&mut self) -> Event {
        loop {
            self.newest.mark_unchanged();
            if let Some(event) = self.board.after(self.seen) {
                self.seen = event.number;
                return event;
            }
            let _ = self.newest.changed().await;
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.board.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}
