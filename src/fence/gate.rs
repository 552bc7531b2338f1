use std::future::pending;
use std::mem::replace;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use fencing_protocol::{Resource, Token};
use smallvec::SmallVec;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::{FenceError, Stale};

/// The requests in flight. A newer token passes when requests with older ones have ended. The gate keeps
/// nothing about a resource without requests in flight.
#[derive(Clone, Default)]
pub(super) struct Gate(pub(super) Arc<DashMap<Resource, ResourceGate>>);

#[derive(Default)]
pub(super) struct ResourceGate {
    in_flight: TokensInFlight,
    /// The highest token that is known to have raised the mark.
    highest: Option<Token>,
    /// Time for which a request may continue after a newer one has passed the marks: the shortest grace in flight.
    grace: Option<Duration>,
    /// Since when requests that have passed the marks have waited for older ones.
    overtaken: Option<Instant>,
    /// Since when the marks have not answered any request.
    unanswered: Option<Instant>,
    /// The highest token that asks older requests to stop, and has passed the marks.
    stopping: Option<Token>,
    /// The tokens of requests that ask older ones to stop, and still wait for the marks.
    pressing: TokensInFlight,
    /// Reports changes of the tokens, if a request waits for one.
    changes: Option<watch::Sender<GateTokens>>,
}

/// The tokens by which a request decides whether it may continue.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct GateTokens {
    /// The oldest token in flight.
    oldest: Option<Token>,
    /// The highest token that is known to have raised the mark.
    pub(super) highest: Option<Token>,
    /// Requests older than this must stop.
    pub(super) stop: Option<Token>,
}

impl ResourceGate {
    fn tokens(&self) -> GateTokens {
        let stop = self.stopping.max(self.pressing.newest());
        GateTokens { oldest: self.in_flight.oldest(), highest: self.highest, stop }
    }

    /// Wakes the requests that wait for a change of the tokens.
    fn report(&self) {
        if let Some(changes) = &self.changes {
            let tokens = self.tokens();
            changes.send_if_modified(|last| replace(last, tokens) != tokens);
        }
    }
}

impl Gate {
    /// Refuses a token if a newer one is in flight and has passed the marks.
    pub(super) fn check(&self, resource: &Resource, token: Token) -> Result<(), Stale> {
        let highest = self.0.get(resource).and_then(|gate| gate.highest);
        Stale::check(resource, token, highest)
    }

    /// Takes a request into flight, unless a newer one has passed the marks: stale ones never hold up a newer one.
    pub(super) fn enter(
        &self,
        resource: &Resource,
        token: Token,
        grace: Option<Duration>,
    ) -> Result<RequestInFlight, Stale> {
        let mut gate = self.0.entry(resource.clone()).or_default();
        Stale::check(resource, token, gate.highest)?;
        gate.in_flight.enter(token);
        gate.grace = gate.grace.into_iter().chain(grace).min();
        gate.report();
        Ok(RequestInFlight { gate: self.clone(), resource: resource.clone(), token, presses: false })
    }
}

/// A request that has entered the gate. It leaves when this is dropped.
pub(super) struct RequestInFlight {
    gate: Gate,
    pub(super) resource: Resource,
    pub(super) token: Token,
    presses: bool,
}

impl RequestInFlight {
    /// Runs `work` on the resource's gate. It exists for as long as the request is in flight.
    fn at_gate<T: Default>(&self, work: impl FnOnce(&mut ResourceGate) -> T) -> T {
        self.gate.0.get_mut(&self.resource).map(|mut gate| work(&mut gate)).unwrap_or_default()
    }

    /// Notes that it asks the marks. Returns since when they have not answered any request.
    pub(super) fn ask_marks(&self) -> Instant {
        let now = Instant::now();
        self.at_gate(|gate| Some(*gate.unanswered.get_or_insert(now))).unwrap_or(now)
    }

    pub(super) fn marks_answered(&self) {
        self.at_gate(|gate| gate.unanswered = None);
    }

    /// Notes that the request has passed the marks: everything older is stale from now on. Returns whether it
    /// has nothing to wait for: nothing older is in flight, and nothing newer has passed.
    pub(super) fn confirm(&self) -> bool {
        self.at_gate(|gate| {
            gate.highest = gate.highest.max(Some(self.token));
            gate.report();
            let is_oldest = gate.in_flight.oldest() >= Some(self.token);
            if !is_oldest {
                gate.overtaken.get_or_insert_with(Instant::now);
            }
            is_oldest && gate.highest == Some(self.token)
        })
    }

    /// Refuses the request if too many others with its token wait. Equal tokens wait for the same older
    /// requests, and a newer one ends the wait of all of them.
    pub(super) fn check_waiters(&self, limit: usize) -> Result<(), FenceError> {
        let crowded = self.at_gate(|gate| {
            let tokens = gate.tokens();
            let crowded = !self.is_settled(&tokens) && gate.in_flight.count(self.token) > limit;
            tokens.oldest.filter(|_| crowded)
        });
        let Some(in_flight) = crowded else { return Ok(()) };
        Err(FenceError::Crowded { resource: self.resource.clone(), presented: self.token, in_flight, limit })
    }

    /// Asks older requests to stop while this one waits for the marks: they may hold them up.
    pub(super) fn press(&mut self) {
        self.presses = true;
        self.at_gate(|gate| {
            gate.pressing.enter(self.token);
            gate.report();
        });
    }

    /// Reports whether the wait has ended: nothing older is in flight, or this one is stale.
    fn is_settled(&self, tokens: &GateTokens) -> bool {
        tokens.oldest >= Some(self.token) || tokens.highest > Some(self.token)
    }

    /// Follows the tokens from now on, until the last request in flight ends.
    fn changes(&self) -> Option<watch::Receiver<GateTokens>> {
        self.at_gate(|gate| {
            let tokens = gate.tokens();
            Some(gate.changes.get_or_insert_with(|| watch::Sender::new(tokens)).subscribe())
        })
    }

    /// Waits until nothing older is in flight, or a newer token has passed the marks. It stops
    /// older requests that may be stopped, at the end of their grace.
    pub(super) async fn alone(&self) -> Result<(), Stale> {
        if let Some(due) = self.at_gate(|gate| gate.overtaken?.checked_add(gate.grace?)) {
            if Instant::now() < due
                && let Ok(alone) = timeout_at(due, self.settled()).await
            {
                return alone;
            }
            self.at_gate(|gate| {
                gate.stopping = gate.stopping.max(Some(self.token));
                gate.report();
            });
        }
        self.settled().await
    }

    async fn settled(&self) -> Result<(), Stale> {
        let Some(mut changes) = self.changes() else { return Ok(()) };
        let tokens = changes.wait_for(|tokens| self.is_settled(tokens)).await.map(|tokens| *tokens);
        // The sender lives as long as this request is in flight.
        tokens.map_or(Ok(()), |tokens| Stale::check(&self.resource, self.token, tokens.highest))
    }

    /// Waits until one of the gate's tokens is newer than that of this request.
    pub(super) fn newer(
        &self,
        newer: fn(&GateTokens) -> Option<Token>,
    ) -> impl Future<Output = Stale> + Send + 'static {
        let (resource, presented) = (self.resource.clone(), self.token);
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
        let in_flight = self.at_gate(|gate| gate.in_flight.oldest()).unwrap_or(self.token);
        FenceError::Busy { resource: self.resource.clone(), presented: self.token, in_flight, waited }
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.gate.0.remove_if_mut(&self.resource, |_, gate| {
            gate.in_flight.leave(self.token);
            if self.presses {
                gate.pressing.leave(self.token);
            }
            let Some(oldest) = gate.in_flight.oldest() else { return true };
            if gate.highest <= Some(oldest) {
                gate.overtaken = None;
            }
            gate.report();
            false
        });
    }
}

/// The tokens of some requests in their order, each as often as requests have it. One or two take no allocation.
#[derive(Default)]
struct TokensInFlight(SmallVec<[Token; 2]>);

impl TokensInFlight {
    fn oldest(&self) -> Option<Token> {
        self.0.first().copied()
    }

    fn newest(&self) -> Option<Token> {
        self.0.last().copied()
    }

    fn count(&self, token: Token) -> usize {
        self.end(token) - self.0.partition_point(|other| *other < token)
    }

    /// Returns the place behind the last request with this token.
    fn end(&self, token: Token) -> usize {
        self.0.partition_point(|other| *other <= token)
    }

    fn enter(&mut self, token: Token) {
        self.0.insert(self.end(token), token);
    }

    fn leave(&mut self, token: Token) {
        if let Some(place) = self.end(token).checked_sub(1)
            && self.0.get(place) == Some(&token)
        {
            self.0.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_is_counted_in_whatever_order_they_come_and_go() {
        // All orders of four requests, of which two have the same token.
        let tokens = [33, 34, 34, 35].map(|number| Token::new(number).unwrap());
        let orders: Vec<[usize; 4]> = (0..256)
            .map(|code| [code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6])
            .filter(|order| (0..4).all(|place| order.contains(&place)))
            .collect();
        assert_eq!(orders.len(), 24);
        for coming in &orders {
            for going in &orders {
                let (mut flight, mut model) = (TokensInFlight::default(), Vec::new());
                let check = |flight: &TokensInFlight, model: &Vec<Token>| {
                    assert_eq!(flight.oldest(), model.iter().min().copied());
                    for token in tokens {
                        let count = model.iter().filter(|other| **other == token).count();
                        assert_eq!(flight.count(token), count);
                    }
                };
                for &place in coming {
                    flight.enter(tokens[place]);
                    model.push(tokens[place]);
                    check(&flight, &model);
                }
                for &place in going {
                    flight.leave(tokens[place]);
                    let found = model.iter().position(|other| *other == tokens[place]).unwrap();
                    model.remove(found);
                    check(&flight, &model);
                }
            }
        }
    }
}
