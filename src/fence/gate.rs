use std::collections::{BTreeMap, BTreeSet};
use std::mem::replace;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use fencing_protocol::{Resource, Token};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use super::in_flight::InFlight;
use super::shards::{Key, Map, Shard, Shards};
use super::{FenceError, Stale};

/// Which requests are in flight, resource by resource. It keeps nothing about a resource
/// without requests in flight.
pub(super) struct Gate(Shards<Entry>);

/// Into how many maps the resources with requests in flight are divided. They are small: with few of
/// them all stay in the caches.
const SHARDS: u16 = 64;

impl Default for Gate {
    fn default() -> Gate {
        Gate(Shards::new(SHARDS))
    }
}

/// The work of a request that a newer one can end from outside.
pub(crate) trait Stoppable: Send + Sync {
    /// Drops the work, and its admission after it: now, or if somebody is at it just now, as
    /// soon as that one lets go. It never waits.
    fn stop(&self, stale: Stale);
}

/// One resource with requests in flight.
pub(super) struct Entry {
    in_flight: InFlight,
    /// How many requests have come in.
    entered: u64,
    /// How long a request may go on after a newer one has passed the marks: the shortest, if
    /// the requests in flight differ.
    grace: Option<Duration>,
    pub(super) view: View,
    /// What most resources never have: requests with different tokens, or that wait.
    crowd: Option<Box<Crowd>>,
}

/// What is known of requests that wait for others of their resource, or that others may stop.
#[derive(Default)]
pub(super) struct Crowd {
    /// Since when requests that have passed the marks have waited for older ones.
    overtaken: Option<Instant>,
    /// Since when the marks have answered nobody.
    unanswered: Option<Instant>,
    /// The highest token that asks older requests to stop, and has passed the marks.
    stopping: Option<Token>,
    /// Requests that ask older ones to stop, and wait for the marks yet.
    pressing: BTreeSet<(Token, u64)>,
    pub(super) stoppable: BTreeMap<(Token, u64), Weak<dyn Stoppable>>,
    /// Tells the view to those who wait for a change of it, if there are any.
    told: Option<watch::Sender<View>>,
}

/// What the requests of a resource need to know of each other.
#[derive(Clone, Copy, PartialEq)]
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
            in_flight: InFlight::default(),
            entered: 0,
            grace: None,
            view: View { oldest, highest: None, stop: None },
            crowd: None,
        }
    }

    pub(super) fn crowd(&mut self) -> &mut Crowd {
        self.crowd.get_or_insert_default()
    }

    /// Changes the view, and tells those who wait for that.
    fn change(&mut self, view: View) {
        if replace(&mut self.view, view) != view
            && let Some(told) = self.crowd.as_ref().and_then(|crowd| crowd.told.as_ref())
        {
            told.send_replace(view);
        }
    }

    /// Tells older requests whether they must stop.
    fn tell(&mut self) {
        let Some(crowd) = &self.crowd else { return };
        let pressing = crowd.pressing.last().map(|(token, _)| *token);
        let stop = crowd.stopping.max(pressing);
        self.change(View { stop, ..self.view });
    }
}

impl Gate {
    /// Refuses a token if a newer one is in flight and has passed the marks.
    pub(super) fn check(&self, resource: &Resource, token: Token) -> Result<(), Stale> {
        let (shard, key) = self.0.of(resource);
        let highest = shard.lock().get(&key).and_then(|entry| entry.view.highest);
        Stale::check(resource, token, highest)
    }

    /// Takes a request into flight, unless a newer one has passed the marks already. So a
    /// stream of stale requests never holds up a newer one.
    pub(super) fn enter(
        &self,
        resource: &Resource,
        token: Token,
        grace: Option<Duration>,
    ) -> Result<Flight, Stale> {
        let (shard, key) = self.0.of(resource);
        let mut entries = shard.lock();
        let entry = entries.entry(key.clone()).or_insert_with(|| Entry::new(token));
        Stale::check(resource, token, entry.view.highest)?;
        entry.in_flight.enter(token);
        entry.entered += 1;
        entry.grace = entry.grace.into_iter().chain(grace).min();
        let oldest = entry.view.oldest.min(token);
        entry.change(View { oldest, ..entry.view });
        Ok(Flight { shard: Arc::clone(shard), key, token, number: entry.entered })
    }

    /// Counts the resources that have requests in flight.
    #[cfg(test)]
    pub(super) fn busy(&self) -> usize {
        self.0.all().map(|shard| shard.lock().len()).sum()
    }
}

/// One request in flight. It ends when this is dropped.
pub(super) struct Flight {
    shard: Arc<Shard<Entry>>,
    pub(super) key: Key,
    pub(super) token: Token,
    /// Tells apart requests with equal tokens.
    pub(super) number: u64,
}

impl Flight {
    pub(super) fn resource(&self) -> &Resource {
        &self.key.resource
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, Map<Entry>> {
        self.shard.lock()
    }

    /// Notes that it asks the marks. Returns since when they have answered nobody.
    pub(super) fn ask(&self) -> Option<Instant> {
        let mut entries = self.entries();
        let entry = entries.get_mut(&self.key)?;
        Some(*entry.crowd().unanswered.get_or_insert_with(Instant::now))
    }

    /// Notes that the marks have answered.
    pub(super) fn answered(&self) {
        if let Some(crowd) =
            self.entries().get_mut(&self.key).and_then(|entry| entry.crowd.as_mut())
        {
            crowd.unanswered = None;
        }
    }

    /// Notes that the marks let it pass: everything older is stale from now on. Returns whether it has
    /// nothing to wait for: nothing older is in flight, and nothing newer has passed.
    pub(super) fn confirm(&self) -> bool {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(&self.key) else { return false };
        let highest = entry.view.highest.max(Some(self.token));
        entry.change(View { highest, ..entry.view });
        if entry.view.oldest < self.token {
            entry.crowd().overtaken.get_or_insert_with(Instant::now);
        }
        self.may_go(&entry.view) && highest == Some(self.token)
    }

    /// Counts those that wait as this one does: equal tokens wait for the same older requests,
    /// and a newer one sends them all away.
    pub(super) fn find_room(&self, limit: usize) -> Result<(), FenceError> {
        let entries = self.entries();
        let Some(entry) = entries.get(&self.key) else { return Ok(()) };
        let View { oldest: in_flight, highest, .. } = entry.view;
        let equal = entry.in_flight.count(self.token);
        if in_flight >= self.token || highest > Some(self.token) || equal <= limit {
            return Ok(());
        }
        let (resource, presented) = (self.resource().clone(), self.token);
        Err(FenceError::Crowded { resource, presented, in_flight, limit })
    }

    /// Asks older requests to stop, for as long as this one waits for the marks: they may be
    /// in its way there.
    pub(super) fn press(&self) {
        self.stop_those_older(|entry| {
            entry.crowd().pressing.insert((self.token, self.number));
        });
    }

    /// Asks older requests to stop, as the marks have let this one pass. Returns whether there
    /// was work that it could end from outside.
    fn stop_older(&self) -> bool {
        self.stop_those_older(|entry| {
            let stopping = &mut entry.crowd().stopping;
            *stopping = (*stopping).max(Some(self.token));
        })
    }

    fn stop_those_older(&self, note: impl FnOnce(&mut Entry)) -> bool {
        let older = {
            let mut entries = self.entries();
            let Some(entry) = entries.get_mut(&self.key) else { return false };
            note(entry);
            entry.tell();
            let stoppable = &mut entry.crowd().stoppable;
            let others = stoppable.split_off(&(self.token, 0));
            replace(stoppable, others)
        };
        let stops = !older.is_empty();
        // Without the lock: what is dropped there may come to this gate.
        for ((token, _), work) in older {
            if let (Some(work), Err(stale)) =
                (work.upgrade(), Stale::check(self.resource(), token, Some(self.token)))
            {
                work.stop(stale);
            }
        }
        stops
    }

    pub(super) fn check(&self, highest: Option<Token>) -> Result<(), Stale> {
        Stale::check(self.resource(), self.token, highest)
    }

    /// Reports whether it has not to wait any more: nothing older is in flight, or it is stale.
    fn may_go(&self, view: &View) -> bool {
        view.oldest >= self.token || view.highest > Some(self.token)
    }

    /// Follows the view from now on. It ends with the last request in flight.
    fn changes(&self) -> watch::Receiver<View> {
        match self.entries().get_mut(&self.key) {
            Some(entry) => {
                let view = entry.view;
                let told = &mut entry.crowd().told;
                told.get_or_insert_with(|| watch::Sender::new(view)).subscribe()
            }
            None => {
                let view = View { oldest: self.token, highest: Some(self.token), stop: None };
                watch::Sender::new(view).subscribe()
            }
        }
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
        let mut changes = self.changes();
        // The entry, and with it the sender, stays as long as this flight does.
        let view = changes.wait_for(|view| self.may_go(view)).await.map(|view| *view);
        view.map_or(Ok(()), |view| self.check(view.highest))
    }

    fn end_of_grace(&self) -> Option<Instant> {
        let entries = self.entries();
        let entry = entries.get(&self.key)?;
        entry.crowd.as_ref()?.overtaken?.checked_add(entry.grace?)
    }

    /// Waits until a newer token asks this one to stop.
    pub(super) fn superseded(&self) -> impl Future<Output = Stale> + Send + 'static {
        let (resource, presented) = (self.resource().clone(), self.token);
        let mut changes = self.changes();
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
        let oldest = self.entries().get(&self.key).map(|entry| entry.view.oldest);
        let in_flight = oldest.unwrap_or(self.token);
        FenceError::Busy {
            resource: self.resource().clone(),
            presented: self.token,
            in_flight,
            waited,
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(&self.key) else { return };
        if let Some(crowd) = &mut entry.crowd {
            let key = (self.token, self.number);
            crowd.stoppable.remove(&key);
            if crowd.pressing.remove(&key) {
                entry.tell();
            }
        }
        entry.in_flight.leave(self.token);
        let Some(oldest) = entry.in_flight.oldest() else {
            entries.remove(&self.key);
            return;
        };
        entry.change(View { oldest, ..entry.view });
        if entry.view.highest <= Some(oldest)
            && let Some(crowd) = &mut entry.crowd
        {
            crowd.overtaken = None;
        }
    }
}
