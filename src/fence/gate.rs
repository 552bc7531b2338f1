use std::collections::BTreeSet;
use std::future::pending;
use std::mem::replace;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use fencing_protocol::{Resource, Token};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::token_counts::TokenCounts;
use super::{FenceError, Stale};

/// The requests in flight. A newer token passes when requests with older ones have ended. The gate keeps
/// nothing about a resource without requests in flight.
#[derive(Clone, Default)]
pub(super) struct Gate(pub(super) Arc<DashMap<Resource, ResourceGate>>);

/// A request, by its token and its number: requests may have equal tokens.
type RequestKey = (Token, u64);

pub(super) struct ResourceGate {
    counts: TokenCounts,
    /// The number of requests that have entered.
    entered: u64,
    /// Time for which a request may continue after a newer one has passed the marks: the shortest
    /// grace, if the requests in flight differ.
    grace: Option<Duration>,
    tokens: GateTokens,
    /// Most resources have none.
    contention: Option<Box<Contention>>,
}

/// The tokens by which a request decides whether it may continue.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct GateTokens {
    /// The oldest token in flight.
    oldest: Token,
    /// The highest token that is known to have raised the mark, if any.
    pub(super) highest: Option<Token>,
    /// Requests older than this must stop.
    stop: Option<Token>,
}

/// The state of a resource whose requests wait for each other, or may stop each other.
#[derive(Default)]
struct Contention {
    /// Since when requests that have passed the marks have waited for older ones.
    overtaken: Option<Instant>,
    /// Since when the marks have not answered any request.
    unanswered: Option<Instant>,
    /// The highest token that asks older requests to stop, and has passed the marks.
    stopping: Option<Token>,
    /// Requests that ask older ones to stop, and still wait for the marks.
    pressing: BTreeSet<RequestKey>,
    /// Reports changes of the tokens, if a request waits for one.
    changes: Option<watch::Sender<GateTokens>>,
}

impl ResourceGate {
    fn new(oldest: Token) -> ResourceGate {
        ResourceGate {
            counts: TokenCounts::default(),
            entered: 0,
            grace: None,
            tokens: GateTokens { oldest, highest: None, stop: None },
            contention: None,
        }
    }

    fn contention(&mut self) -> &mut Contention {
        self.contention.get_or_insert_default()
    }

    fn set(&mut self, tokens: GateTokens) {
        if replace(&mut self.tokens, tokens) != tokens
            && let Some(changes) = self.contention.as_ref().and_then(|c| c.changes.as_ref())
        {
            changes.send_replace(tokens);
        }
    }

    fn update_stop(&mut self) {
        let Some(contention) = &self.contention else { return };
        let pressing = contention.pressing.last().map(|(token, _)| *token);
        let stop = contention.stopping.max(pressing);
        self.set(GateTokens { stop, ..self.tokens });
    }
}

impl Gate {
    /// Refuses a token if a newer one is in flight and has passed the marks.
    pub(super) fn check(&self, resource: &Resource, token: Token) -> Result<(), Stale> {
        let highest = self.0.get(resource).and_then(|gate| gate.tokens.highest);
        Stale::check(resource, token, highest)
    }

    /// Takes a request into flight, unless a newer one has passed the marks already. So a
    /// stream of stale requests never holds up a newer one.
    pub(super) fn enter(
        &self,
        resource: &Resource,
        token: Token,
        grace: Option<Duration>,
    ) -> Result<RequestInFlight, Stale> {
        let mut entry = self.0.entry(resource.clone()).or_insert_with(|| ResourceGate::new(token));
        let gate = entry.value_mut();
        Stale::check(resource, token, gate.tokens.highest)?;
        gate.counts.enter(token);
        gate.entered += 1;
        gate.grace = gate.grace.into_iter().chain(grace).min();
        gate.set(GateTokens { oldest: gate.tokens.oldest.min(token), ..gate.tokens });
        Ok(RequestInFlight { gate: self.clone(), resource: resource.clone(), token, number: gate.entered })
    }
}

/// A request that has entered the gate. It leaves when this is dropped.
pub(super) struct RequestInFlight {
    gate: Gate,
    resource: Resource,
    pub(super) token: Token,
    number: u64,
}

impl RequestInFlight {
    pub(super) fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Runs `work` on the resource's gate. It exists for as long as the request is in flight.
    fn at_gate<T: Default>(&self, work: impl FnOnce(&mut ResourceGate) -> T) -> T {
        self.gate.0.get_mut(&self.resource).map(|mut gate| work(&mut gate)).unwrap_or_default()
    }

    /// Notes that it asks the marks. Returns since when they have not answered any request.
    pub(super) fn ask_marks(&self) -> Instant {
        let now = Instant::now();
        let since = self.at_gate(|gate| Some(*gate.contention().unanswered.get_or_insert(now)));
        since.unwrap_or(now)
    }

    pub(super) fn marks_answered(&self) {
        self.at_gate(|gate| gate.contention().unanswered = None);
    }

    /// Notes that the request has passed the marks: everything older is stale from now on. Returns whether it
    /// has nothing to wait for: nothing older is in flight, and nothing newer has passed.
    pub(super) fn confirm(&self) -> bool {
        self.at_gate(|gate| {
            let highest = gate.tokens.highest.max(Some(self.token));
            gate.set(GateTokens { highest, ..gate.tokens });
            if gate.tokens.oldest < self.token {
                gate.contention().overtaken.get_or_insert_with(Instant::now);
            }
            gate.tokens.oldest >= self.token && highest == Some(self.token)
        })
    }

    /// Refuses the request if too many others with its token wait. Equal tokens wait for the same older
    /// requests, and a newer one ends the wait of all of them.
    pub(super) fn check_waiters(&self, limit: usize) -> Result<(), FenceError> {
        let crowded = self.at_gate(|gate| {
            let waits = !self.is_settled(&gate.tokens);
            (waits && gate.counts.count(self.token) > limit).then_some(gate.tokens.oldest)
        });
        let Some(in_flight) = crowded else { return Ok(()) };
        let (resource, presented) = (self.resource().clone(), self.token);
        Err(FenceError::Crowded { resource, presented, in_flight, limit })
    }

    /// Asks older requests to stop while this one waits for the marks: they may hold them up.
    pub(super) fn press(&self) {
        self.stop_older(|contention| {
            contention.pressing.insert(self.request_key());
        });
    }

    fn request_key(&self) -> RequestKey {
        (self.token, self.number)
    }

    /// Asks older requests to stop.
    fn stop_older(&self, note: impl FnOnce(&mut Contention)) {
        self.at_gate(|gate| {
            note(gate.contention());
            gate.update_stop();
        });
    }

    fn check(&self, highest: Option<Token>) -> Result<(), Stale> {
        Stale::check(self.resource(), self.token, highest)
    }

    /// Reports whether the wait has ended: nothing older is in flight, or this one is stale.
    fn is_settled(&self, tokens: &GateTokens) -> bool {
        tokens.oldest >= self.token || tokens.highest > Some(self.token)
    }

    /// Follows the tokens from now on, until the last request in flight ends.
    fn changes(&self) -> Option<watch::Receiver<GateTokens>> {
        self.at_gate(|gate| {
            let tokens = gate.tokens;
            let changes = &mut gate.contention().changes;
            Some(changes.get_or_insert_with(|| watch::Sender::new(tokens)).subscribe())
        })
    }

    /// Waits until nothing older is in flight, or a newer token has passed the marks. It stops
    /// older requests that may be stopped, at the end of their grace.
    pub(super) async fn alone(&self) -> Result<(), Stale> {
        if let Some(due) = self.end_of_grace() {
            if Instant::now() < due
                && let Ok(alone) = timeout_at(due, self.settled()).await
            {
                return alone;
            }
            self.stop_older(|contention| {
                contention.stopping = contention.stopping.max(Some(self.token));
            });
        }
        self.settled().await
    }

    async fn settled(&self) -> Result<(), Stale> {
        let Some(mut changes) = self.changes() else { return Ok(()) };
        let tokens = changes.wait_for(|tokens| self.is_settled(tokens)).await.map(|tokens| *tokens);
        // The sender lives as long as this request is in flight.
        tokens.map_or(Ok(()), |tokens| self.check(tokens.highest))
    }

    fn end_of_grace(&self) -> Option<Instant> {
        self.at_gate(|gate| gate.contention.as_ref()?.overtaken?.checked_add(gate.grace?))
    }

    /// Waits until a newer token asks this request to stop.
    pub(super) fn superseded(&self) -> impl Future<Output = Stale> + Send + 'static {
        self.newer(|tokens| tokens.stop)
    }

    /// Waits until one of the gate's tokens is newer than that of this request.
    pub(super) fn newer(
        &self,
        newer: fn(&GateTokens) -> Option<Token>,
    ) -> impl Future<Output = Stale> + Send + 'static {
        let (resource, presented) = (self.resource().clone(), self.token);
        let changes = self.changes();
        async move {
            let check = |tokens: &GateTokens| Stale::check(&resource, presented, newer(tokens));
            if let Some(mut changes) = changes
                && let Ok(tokens) = changes.wait_for(|tokens| check(tokens).is_err()).await
                && let Err(stale) = check(&tokens)
            {
                return stale;
            }
            // The request ended first.
            pending().await
        }
    }

    /// Makes the error of a request whose wait for older ones took too long.
    pub(super) fn busy(&self, waited: Duration) -> FenceError {
        let in_flight = self.at_gate(|gate| Some(gate.tokens.oldest)).unwrap_or(self.token);
        let (resource, presented) = (self.resource().clone(), self.token);
        FenceError::Busy { resource, presented, in_flight, waited }
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        let leave = |_: &Resource, gate: &mut ResourceGate| {
            if let Some(contention) = &mut gate.contention
                && contention.pressing.remove(&self.request_key())
            {
                gate.update_stop();
            }
            gate.counts.leave(self.token);
            let Some(oldest) = gate.counts.oldest() else { return true };
            gate.set(GateTokens { oldest, ..gate.tokens });
            if gate.tokens.highest <= Some(oldest)
                && let Some(contention) = &mut gate.contention
            {
                contention.overtaken = None;
            }
            false
        };
        self.gate.0.remove_if_mut(&self.resource, leave);
    }
}
