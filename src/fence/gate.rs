use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::{FenceError, Stale};
use crate::resource::Resource;
use crate::token::Token;

/// Which requests are in flight, resource by resource. It keeps nothing about a resource
/// without requests in flight.
#[derive(Default)]
pub(super) struct Gate(Mutex<HashMap<Resource, Entry>>);

/// One resource with requests in flight.
struct Entry {
    in_flight: BTreeMap<Token, usize>,
    view: watch::Sender<View>,
}

/// What the requests of a resource need to know of each other.
#[derive(Clone, Copy)]
struct View {
    /// The oldest token in flight.
    oldest: Token,
    /// The highest token that is known to have raised the mark, if any.
    highest: Option<Token>,
    /// The highest token that waits for the marks, perhaps behind an older one's transaction.
    pressing: Option<Token>,
}

impl Gate {
    /// Takes a request into flight, unless a newer one has passed the marks already. So a
    /// stream of stale requests never holds up a newer one.
    pub(super) fn enter(
        self: &Arc<Gate>,
        resource: &Resource,
        token: Token,
    ) -> Result<Flight, Stale> {
        let mut entries = self.entries();
        let entry = entries.entry(resource.clone()).or_insert_with(|| Entry {
            in_flight: BTreeMap::new(),
            view: watch::Sender::new(View { oldest: token, highest: None, pressing: None }),
        });
        Stale::check(resource, token, entry.view.borrow().highest)?;
        *entry.in_flight.entry(token).or_default() += 1;
        entry.view.send_if_modified(|view| {
            let older = token < view.oldest;
            view.oldest = view.oldest.min(token);
            older
        });
        let view = entry.view.subscribe();
        Ok(Flight { gate: Arc::clone(self), resource: resource.clone(), token, view })
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Resource, Entry>> {
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
    gate: Arc<Gate>,
    pub(super) resource: Resource,
    pub(super) token: Token,
    view: watch::Receiver<View>,
}

impl Flight {
    /// Notes that the marks let it pass: everything older is stale from now on.
    pub(super) fn confirm(&self) {
        self.raise(|view| &mut view.highest);
    }

    /// Notes that it waits for the marks: older requests may be in its way and must stop.
    pub(super) fn press(&self) {
        self.raise(|view| &mut view.pressing);
    }

    fn raise(&self, which: impl Fn(&mut View) -> &mut Option<Token>) {
        if let Some(entry) = self.gate.entries().get(&self.resource) {
            entry.view.send_if_modified(|view| {
                let known = which(view);
                let higher = *known < Some(self.token);
                *known = (*known).max(Some(self.token));
                higher
            });
        }
    }

    fn check(&self, highest: Option<Token>) -> Result<(), Stale> {
        Stale::check(&self.resource, self.token, highest)
    }

    /// Waits until nothing older is in flight, or a newer token has passed the marks.
    pub(super) async fn alone(&self) -> Result<(), Stale> {
        let mut changes = self.view.clone();
        let settled = |view: &View| view.oldest >= self.token || self.check(view.highest).is_err();
        // The entry, and with it the sender, stays as long as this flight does.
        let view = changes.wait_for(settled).await.map(|view| *view);
        view.map_or(Ok(()), |view| self.check(view.highest))
    }

    /// Waits until a newer token has passed the marks, or presses.
    pub(super) fn superseded(&self) -> impl Future<Output = Stale> + Send + 'static {
        let (resource, presented) = (self.resource.clone(), self.token);
        let mut changes = self.view.clone();
        async move {
            let newest = |view: &View| view.highest.max(view.pressing);
            let check = |view: &View| Stale::check(&resource, presented, newest(view));
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
        if let Some(count) = entry.in_flight.get_mut(&self.token) {
            *count -= 1;
            if *count > 0 {
                return;
            }
            entry.in_flight.remove(&self.token);
        }
        match entry.in_flight.keys().next() {
            None => drop(entries.remove(&self.resource)),
            Some(oldest) => entry.view.send_modify(|view| view.oldest = *oldest),
        }
    }
}
