use std::collections::BTreeMap;
use std::time::Duration;

use super::message::{Prepared, Reply, Request, State};
use super::{Incarnation, Nonce, Owner, Stamp};
use crate::time::Time;
use crate::{Resource, Token};

/// How many counts a node keeps before it asks for a new era.
pub const CROWDED: usize = 100_000;

/// What one node keeps, and how it answers: the protocol's other half.
///
/// Memory nodes run it, the model check explores it, and the Redis scripts do the same
/// step for step; one contract suite holds them together. `now` is the node's own clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Store {
    locks: BTreeMap<Resource, (Owner, Time)>,
    quarantine: Option<Time>,
    memory: Memory,
}

/// Everything that must not be forgotten separately: one hash on a Redis node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Memory {
    admitted: Option<Incarnation>,
    prepared: Option<(Incarnation, Nonce)>,
    state: State,
    granted: bool,
    counts: BTreeMap<Resource, u64>,
}

impl Store {
    /// Answers one request of a session with `incarnation`, in one atomic step.
    pub fn answer(
        &mut self,
        incarnation: &Incarnation,
        request: &Request,
        now: Time,
        clock: Duration,
    ) -> Reply {
        self.expire(request, now);
        match request {
            Request::Prepare { nonce } => return self.prepare(incarnation, *nonce, clock),
            Request::Activate { incarnation: prepared, nonce, era, quarantine, settle } => {
                if prepared != incarnation {
                    return Reply::Forgotten;
                }
                return self.activate(incarnation, *nonce, *era, (*quarantine, *settle), now);
            }
            _ => {}
        }
        if self.memory.admitted.as_ref() != Some(incarnation) {
            return Reply::NotAdmitted;
        }
        match request {
            Request::Acquire { resource, owner, ttl } => self.acquire(resource, *owner, *ttl, now),
            Request::Publish { resource, owner, nonce, token } => {
                self.publish(resource, *owner, *nonce, *token)
            }
            Request::Renew { resource, owner, token, ttl } => {
                self.renew(resource, *owner, *token, *ttl, now)
            }
            Request::Release { resource, owner } => {
                if self.holder(resource) != Some(*owner) {
                    return Reply::NotOwner;
                }
                self.locks.remove(resource);
                Reply::Released
            }
            Request::Reserve { era } => {
                self.memory.state.reserved = self.memory.state.reserved.max(*era);
                Reply::Reserved
            }
            Request::Read | Request::Prepare { .. } | Request::Activate { .. } => {
                Reply::State(self.memory.state)
            }
        }
    }

    /// Forgets everything, as `FLUSHALL` or a restart without persistence does.
    pub fn forget(&mut self) {
        *self = Store::default();
    }

    /// Lets the lock of `resource` vanish, as an early expiry does.
    pub fn expire_lock(&mut self, resource: &Resource) {
        self.locks.remove(resource);
    }

    fn expire(&mut self, request: &Request, now: Time) {
        let over = |(_, until): &(Owner, Time)| *until <= now;
        if let Some(resource) = request.resource()
            && self.locks.get(resource).is_some_and(over)
        {
            self.locks.remove(resource);
        }
        self.quarantine = self.quarantine.filter(|until| *until > now);
    }

    fn holder(&self, resource: &Resource) -> Option<Owner> {
        self.locks.get(resource).map(|(owner, _)| *owner)
    }

    fn acquire(&mut self, resource: &Resource, owner: Owner, ttl: Duration, now: Time) -> Reply {
        let Some((_, nonce)) = self.memory.prepared else { return Reply::NotAdmitted };
        if let Some(until) = self.quarantine {
            return Reply::Quarantined { remaining: until.since(now) };
        }
        let crowded = self.memory.counts.len() >= CROWDED;
        let era = self.memory.state.era;
        let count = self.memory.counts.get(resource).copied().unwrap_or(0);
        if let Some((holder, until)) = self.locks.get(resource) {
            // A request that the network repeated is answered, not counted again.
            return if *holder == owner {
                Reply::Granted { stamp: Stamp { era, count }, nonce, crowded }
            } else {
                Reply::Held { remaining: until.since(now) }
            };
        }
        if count >= Stamp::MAX_COUNT {
            return Reply::Exhausted;
        }
        // Other locks that have expired are swept now and then.
        if self.locks.len().is_power_of_two() {
            self.locks.retain(|_, (_, until)| *until > now);
        }
        self.memory.counts.insert(resource.clone(), count + 1);
        self.memory.granted = true;
        self.memory.state.longest = self.memory.state.longest.max(ttl);
        self.locks.insert(resource.clone(), (owner, now + ttl));
        Reply::Granted { stamp: Stamp { era, count: count + 1 }, nonce, crowded }
    }

    fn publish(&mut self, resource: &Resource, owner: Owner, nonce: Nonce, token: Token) -> Reply {
        let remembers = self.memory.prepared.as_ref().is_some_and(|(_, here)| *here == nonce);
        if self.holder(resource) != Some(owner) || !remembers {
            return Reply::NotOwner;
        }
        let stamp = Stamp::from(token);
        let (era, count) = (self.memory.state.era, self.memory.counts.get(resource));
        // Somebody has been here in between, and a repeated request has locked again.
        if (Stamp { era, count: count.copied().unwrap_or(0) }) > stamp {
            return Reply::NotOwner;
        }
        if stamp.era > era {
            self.memory.state.era = stamp.era;
            self.memory.counts.clear();
        }
        self.memory.counts.insert(resource.clone(), stamp.count);
        Reply::Published
    }

    fn renew(
        &mut self,
        resource: &Resource,
        owner: Owner,
        token: Token,
        ttl: Duration,
        now: Time,
    ) -> Reply {
        if let Some(until) = self.quarantine {
            return Reply::Quarantined { remaining: until.since(now) };
        }
        match self.locks.get(resource) {
            Some((holder, until)) if *holder != owner => {
                return Reply::Held { remaining: until.since(now) };
            }
            Some(_) => {}
            // Healing: never over a count that somebody else has taken since.
            None => {
                let era = self.memory.state.era;
                let count = self.memory.counts.get(resource).copied();
                if count.is_some_and(|count| Stamp { era, count } > Stamp::from(token)) {
                    return Reply::NotOwner;
                }
            }
        }
        self.memory.state.longest = self.memory.state.longest.max(ttl);
        self.locks.insert(resource.clone(), (owner, now + ttl));
        Reply::Renewed
    }

    fn prepare(&mut self, incarnation: &Incarnation, fresh: Nonce, clock: Duration) -> Reply {
        let blank = !self.memory.granted
            && self.memory.prepared.as_ref().is_none_or(|(life, _)| life == incarnation)
            && self.memory.admitted.as_ref().is_none_or(|life| life == incarnation);
        let nonce = match &self.memory.prepared {
            Some((life, nonce)) if life == incarnation => *nonce,
            _ => {
                self.memory.prepared = Some((incarnation.clone(), fresh));
                fresh
            }
        };
        Reply::Prepared(Prepared {
            incarnation: incarnation.clone(),
            nonce,
            admitted: self.memory.admitted.as_ref() == Some(incarnation),
            blank,
            state: self.memory.state,
            clock,
        })
    }

    fn activate(
        &mut self,
        incarnation: &Incarnation,
        nonce: Nonce,
        era: u64,
        (quarantine, settle): (Duration, Duration),
        now: Time,
    ) -> Reply {
        if self.memory.prepared != Some((incarnation.clone(), nonce)) {
            return Reply::Forgotten;
        }
        let forgot = self.memory.admitted.as_ref() != Some(incarnation);
        let written = self.memory.state.era.max(self.memory.state.reserved);
        if era > Stamp::MAX_ERA || (forgot && era <= written) {
            return Reply::Forgotten;
        }
        let mut closed = Duration::ZERO;
        if forgot {
            self.memory.admitted = Some(incarnation.clone());
            self.memory.granted = false;
            closed = quarantine.max(settle);
        } else if era > self.memory.state.era {
            closed = settle;
        }
        if forgot || era > self.memory.state.era {
            self.memory.state.era = era;
            self.memory.state.reserved = self.memory.state.reserved.max(era);
            self.memory.counts.clear();
        }
        if !closed.is_zero() {
            self.quarantine = self.quarantine.max(Some(now + closed));
        }
        Reply::Activated
    }
}
