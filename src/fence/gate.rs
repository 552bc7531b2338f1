use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::replace;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use super::{FenceError, Stale};
use crate::resource::Resource;
use crate::token::Token;

/// Which requests are in flight, resource by resource. It keeps nothing about a resource
/// without requests in flight.
#[derive(Default)]
pub(super) struct Gate(Mutex<HashMap<Resource, Entry>>);

/// The work of a request that a newer one can end from outside.
pub(crate) trait Stoppable: Send + Sync {
    /// Drops the work, and its admission after it: now, or if somebody is at it just now, as
    /// soon as that one lets go. It never waits.
    fn stop(&self, stale: Stale);
}

/// One resource with requests in flight.
pub(super) struct Entry {
    in_flight: BTreeMap<Token, usize>,
    /// How many requests have come in.
    entered: u64,
    /// How long a request may go on after a newer one has passed the marks: the shortest, if
    /// the requests in flight differ.
    grace: Option<Duration>,
    /// Since when requests that have passed the marks have waited for older ones.
    overtaken: Option<Instant>,
    /// Since when the marks have answered nobody.
    unanswered: Option<Instant>,
    /// The highest token that asks older requests to stop, and has passed the marks.
    stopping: Option<Token>,
    /// Requests that ask older ones to stop, and wait for the marks yet.
    pressing: BTreeSet<(Token, u64)>,
    pub(super) stoppable: BTreeMap<(Token, u64), Weak<dyn Stoppable>>,
    pub(super) view: watch::Sender<View>,
}

/// What the requests of a resource need to know of each other.
#[derive(Clone, Copy)]
pub(super) struct View {
    /// The oldest token in flight.
    oldest: Token,
    /// The highest token that is known to have raised the mark, if any.
    highest: Option<Token>,
    /// Requests older than this must stop.
    pub(super) stop: Option<Token>,
}

impl Entry {
    fn new(oldest: Token) -> Entry {
        Entry {
            in_flight: BTreeMap::new(),
            entered: 0,
            grace: None,
            overtaken: None,
            unanswered: None,
            stopping: None,
            pressing: BTreeSet::new(),
            stoppable: BTreeMap::new(),
            view: watch::Sender::new(View { oldest, highest: None, stop: None }),
        }
    }

    /// Tells older requests whether they must stop.
    fn tell(&self) {
        let stop = self.stopping.max(self.pressing.last().map(|(token, _)| *token));
        self.view.send_if_modified(|view| replace(&mut view.stop, stop) != stop);
    }
}

impl Gate {
    /// Refuses a token if a newer one is in flight and has passed the marks.
    pub(super) fn check(&self, resource: &Resource, token: Token) -> Result<(), Stale> {
        let entries = self.entries();
        let highest = entries.get(resource).and_then(|entry| entry.view.borrow().highest);
        Stale::check(resource, token, highest)
    }

    /// Takes a request into flight, unless a newer one has passed the marks already. So a
    /// stream of stale requests never holds up a newer one.
    pub(super) fn enter(
        self: &Arc<Gate>,
        resource: &Resource,
        token: Token,
        grace: Option<Duration>,
    ) -> Result<Flight, Stale> {
        let mut entries = self.entries();
        let entry = entries.entry(resource.clone()).or_insert_with(|| Entry::new(token));
        Stale::check(resource, token, entry.view.borrow().highest)?;
        *entry.in_flight.entry(token).or_default() += 1;
        entry.entered += 1;
        entry.grace = entry.grace.into_iter().chain(grace).min();
        entry.view.send_if_modified(|view| {
            let older = token < view.oldest;
            view.oldest = view.oldest.min(token);
            older
        });
        let (number, view) = (entry.entered, entry.view.subscribe());
        Ok(Flight { gate: Arc::clone(self), resource: resource.clone(), token, number, view })
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, HashMap<Resource, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the resources that have requests in flight.
    #[cfg(test)]
    pub(super) fn busy(&self) -> usize {
        self.entries().len()
    }
}

/// One request in flight. It ends when this is dropped.
pub(super) struct Flight {
    pub(super) gate: Arc<Gate>,
    pub(super) resource: Resource,
    pub(super) token: Token,
    /// Tells apart requests with equal tokens.
    pub(super) number: u64,
    view: watch::Receiver<View>,
}

impl Flight {
    /// Notes that it asks the marks. Returns since when they have answered nobody.
    pub(super) fn ask(&self) -> Option<Instant> {
        let mut entries = self.gate.entries();
        let entry = entries.get_mut(&self.resource)?;
        Some(*entry.unanswered.get_or_insert_with(Instant::now))
    }

    /// Notes that the marks have answered.
    pub(super) fn answered(&self) {
        if let Some(entry) = self.gate.entries().get_mut(&self.resource) {
            entry.unanswered = None;
        }
    }

    /// Notes that the marks let it pass: everything older is stale from now on.
    pub(super) fn confirm(&self) {
        let mut entries = self.gate.entries();
        let Some(entry) = entries.get_mut(&self.resource) else { return };
        entry.view.send_if_modified(|view| {
            let higher = view.highest < Some(self.token);
            view.highest = view.highest.max(Some(self.token));
            higher
        });
        if entry.view.borrow().oldest < self.token {
            entry.overtaken.get_or_insert_with(Instant::now);
        }
    }

    /// Counts those that wait as this one does: equal tokens wait for the same older requests,
    /// and a newer one sends them all away.
    pub(super) fn find_room(&self, limit: usize) -> Result<(), FenceError> {
        let entries = self.gate.entries();
        let Some(entry) = entries.get(&self.resource) else { return Ok(()) };
        let View { oldest: in_flight, highest, .. } = *entry.view.borrow();
        let equal = entry.in_flight.get(&self.token).copied().unwrap_or(0);
        if in_flight >= self.token || highest > Some(self.token) || equal <= limit {
            return Ok(());
        }
        let (resource, presented) = (self.resource.clone(), self.token);
        Err(FenceError::Crowded { resource, presented, in_flight, limit })
    }

    /// Asks older requests to stop, for as long as this one waits for the marks: they may be
    /// in its way there.
    pub(super) fn press(&self) {
        self.stop_those_older(|entry| {
            entry.pressing.insert((self.token, self.number));
        });
    }

    /// Asks older requests to stop, as the marks have let this one pass. Returns whether there
    /// was work that it could end from outside.
    fn stop_older(&self) -> bool {
        self.stop_those_older(|entry| entry.stopping = entry.stopping.max(Some(self.token)))
    }

    fn stop_those_older(&self, note: impl FnOnce(&mut Entry)) -> bool {
        let older = {
            let mut entries = self.gate.entries();
            let Some(entry) = entries.get_mut(&self.resource) else { return false };
            note(entry);
            entry.tell();
            let others = entry.stoppable.split_off(&(self.token, 0));
            replace(&mut entry.stoppable, others)
        };
        let stops = !older.is_empty();
        // Without the lock: what is dropped there may come to this gate.
        for ((token, _), work) in older {
            if let (Some(work), Err(stale)) =
                (work.upgrade(), Stale::check(&self.resource, token, Some(self.token)))
            {
                work.stop(stale);
            }
        }
        stops
    }

    pub(super) fn check(&self, highest: Option<Token>) -> Result<(), Stale> {
        Stale::check(&self.resource, self.token, highest)
    }

    /// Waits until nothing older is in flight, or a newer token has passed the marks. It
    /// stops older requests that may be stopped, when their grace is over.
    pub(super) async fn alone(&self) -> Result<(), Stale> {
        if let Some(due) = self.end_of_grace() {
            if Instant::now() < due
                && let Ok(alone) = timeout_at(due, self.settled()).await
            {
                return alone;
            }
            if self.stop_older() {
                // The tasks of those that were stopped hear of it first.
                yield_now().await;
            }
        }
        self.settled().await
    }

    async fn settled(&self) -> Result<(), Stale> {
        let mut changes = self.view.clone();
        let settled = |view: &View| view.oldest >= self.token || self.check(view.highest).is_err();
        // The entry, and with it the sender, stays as long as this flight does.
        let view = changes.wait_for(settled).await.map(|view| *view);
        view.map_or(Ok(()), |view| self.check(view.highest))
    }

    fn end_of_grace(&self) -> Option<Instant> {
        let entries = self.gate.entries();
        let entry = entries.get(&self.resource)?;
        entry.overtaken?.checked_add(entry.grace?)
    }

    /// Waits until a newer token asks this one to stop.
    pub(super) fn superseded(&self) -> impl Future<Output = Stale> + Send + 'static {
        let (resource, presented) = (self.resource.clone(), self.token);
        let mut changes = self.view.clone();
        async move {
            let check = |view: &View| Stale::check(&resource, presented, view.stop);
            let view = changes.wait_for(|view| check(view).is_err()).await.map(|view| *view);
            match view.map(|view| check(&view)) {
                Ok(Err(stale)) => stale,
                // The request ended first.
                _ => std::future::pending().await,
            }
        }
    }

    /// Makes the error of a request that waited for older ones in vain.
    pub(super) fn busy(&self, waited: Duration) -> FenceError {
        let in_flight = self.view.borrow().oldest;
        FenceError::Busy {
            resource: self.resource.clone(),
            presented: self.token,
            in_flight,
            waited,
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut entries = self.gate.entries();
        let Some(entry) = entries.get_mut(&self.resource) else { return };
        let key = (self.token, self.number);
        entry.stoppable.remove(&key);
        if entry.pressing.remove(&key) {
            entry.tell();
        }
        if let Some(count) = entry.in_flight.get_mut(&self.token) {
            *count -= 1;
            if *count > 0 {
                return;
            }
            entry.in_flight.remove(&self.token);
        }
        let Some(oldest) = entry.in_flight.keys().next().copied() else {
            entries.remove(&self.resource);
            return;
        };
        entry.view.send_modify(|view| view.oldest = oldest);
        if entry.view.borrow().highest <= Some(oldest) {
            entry.overtaken = None;
        }
    }
}
