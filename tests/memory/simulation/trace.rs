use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;

use support::history::{At, Event, History, Stored};

/// All that happens in one run, in its order: the history for the checker, and a hash over that and every message.
#[derive(Clone)]
pub struct Trace(Arc<Mutex<Inner>>);

struct Inner {
    start: Instant,
    hasher: DefaultHasher,
    moments: At,
    history: History,
    faults: BTreeMap<&'static str, u64>,
}

impl Trace {
    pub fn new() -> Trace {
        let (start, hasher) = (Instant::now(), DefaultHasher::new());
        let (history, faults) = (History::default(), BTreeMap::new());
        Trace(Arc::new(Mutex::new(Inner { start, hasher, moments: 0, history, faults })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// Takes this into the trace, and tells the moment: no two are the same.
    pub fn note(&self, what: impl Hash) -> At {
        let mut inner = self.inner();
        inner.moments += 1;
        let elapsed = inner.start.elapsed();
        (inner.moments, elapsed).hash(&mut inner.hasher);
        what.hash(&mut inner.hasher);
        inner.moments
    }

    pub fn event(&self, event: Event) {
        self.note(format!("{event:?}"));
        self.inner().history.events.push(event);
    }

    pub fn accept(&self, stored: Stored) {
        self.note(format!("{stored:?}"));
        let mut inner = self.inner();
        inner.history.stored.insert(stored.resource.clone(), stored.clone());
        inner.history.accepted.push(stored);
    }

    pub fn fault(&self, name: &'static str) {
        self.note(name);
        *self.inner().faults.entry(name).or_default() += 1;
    }

    /// Ends it: the history, the hash, and how often there was which fault.
    pub fn end(&self) -> (History, u64, BTreeMap<&'static str, u64>) {
        let mut inner = self.inner();
        let (history, faults) = (std::mem::take(&mut inner.history), std::mem::take(&mut inner.faults));
        (history, inner.hasher.finish(), faults)
    }
}
