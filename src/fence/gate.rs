use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::{AdmitError, Stale};
use crate::resource::Resource;
use crate::token::Token;

/// Who is in flight, resource by resource. It keeps nothing of a resource that is at rest.
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
    /// The highest that is known to have raised the mark, if any.
    highest: Option<Token>,
    /// The highest that waits for the marks, perhaps behind an older one's transaction.
    pressing: Option<Token>,
}

impl View {
    fn newer_than(self, token: Token) -> Option<Token> {
        self.highest.filter(|highest| *highest > token)
    }

    fn supersedes(self, token: Token) -> Option<Token> {
        self.highest.max(self.pressing).filter(|newer| *newer > token)
    }
}

impl Gate {
    /// Takes a request into flight, unless a newer one has passed the marks already: so a
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
        if let Some(highest) = entry.view.borrow().newer_than(token) {
            return Err(Stale { resource: resource.clone(), presented: token, highest });
        }
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

    /// How many resources have requests in flight.
    #[cfg(test)]
    pub(super) fn busy(&self) -> usize {
        self.entries().len()
    }
}

/// One request in flight; dropped, it has ended.
pub(super) struct Flight {
    gate: Arc<Gate>,
    pub(super) resource: Resource,
    pub(super) token: Token,
    view: watch::Receiver<View>,
}

impl Flight {
    /// The marks let it pass: everything older is stale from now on.
    pub(super) fn confirm(&self) {
        self.raise(|view| &mut view.highest);
    }

    /// It waits for the marks: older ones that may be in its way are to stop.
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

    /// Waits until nothing older is in flight.
    pub(super) async fn alone(&self) -> Result<(), Stale> {
        let token = self.token;
        let mut changes = self.view.clone();
        let settled = |view: &View| view.oldest >= token || view.newer_than(token).is_some();
        // The entry, and with it the sender, stays as long as this flight does.
        let view = changes.wait_for(settled).await.map(|view| *view);
        match view.ok().and_then(|view| view.newer_than(token)) {
            Some(highest) => {
                Err(Stale { resource: self.resource.clone(), presented: token, highest })
            }
            None => Ok(()),
        }
    }

    /// Resolves when a newer token has passed the marks, or presses.
    pub(super) fn superseded(&self) -> impl Future<Output = Stale> + Send + 'static {
        let (resource, presented) = (self.resource.clone(), self.token);
        let mut changes = self.view.clone();
        async move {
            let newer = |view: &View| view.supersedes(presented).is_some();
            let view = changes.wait_for(newer).await.map(|view| *view);
            match view.ok().and_then(|view| view.supersedes(presented)) {
                Some(highest) => Stale { resource, presented, highest },
                // It ended first.
                None => std::future::pending().await,
            }
        }
    }

    pub(super) fn busy(&self, waited: Duration) -> AdmitError {
        let in_flight = self.view.borrow().oldest;
        AdmitError::Busy {
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
