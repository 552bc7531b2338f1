use std::time::Duration;

use super::{CROWDED, Clocks, Expiry, LockPart, Store};
use crate::holders::Holders;
use crate::message::{Reply, Request};
use crate::{Membership, Mode, Nonce, Owner, Resource, Stamp, Time, Token};

/// The life of a lock on a node: granted, published, renewed and released.
impl Store {
    pub(super) fn drain(&mut self, resource: &Resource, lasting: Duration, now: Time) -> Reply {
        if let Some(holders) = self.locks.get_mut(resource) {
            holders.drain(lasting, now);
        }
        Reply::Draining
    }

    /// Returns the refusal of a lock in this mode, if others hold it.
    fn held(&self, resource: &Resource, mode: Mode, now: Time) -> Option<Reply> {
        let holders = self.locks.get(resource)?;
        let remaining = holders.until().since(now);
        let shared = holders.mode()? == Mode::Shared;
        let joins = shared && mode == Mode::Shared;
        (!joins).then_some(Reply::Held { remaining, shared, holder: None })
    }

    fn lock(&mut self, LockPart { resource, owner, mode, until }: LockPart<'_>, now: Time) {
        self.memory.granted = true;
        let latest = self.locks.get(resource).filter(|_| mode == Mode::Shared);
        let longest = latest.map_or(until, |holders| holders.until().max(until));
        self.outstanding.insert(resource.clone(), Expiry { until: longest, at_most: longest.since(now) });
        match self.locks.get_mut(resource) {
            Some(holders) => holders.add(mode, owner, until),
            None => drop(self.locks.insert(resource.clone(), Holders::new(mode, owner, until))),
        }
    }

    pub(super) fn release(&mut self, resource: &Resource, owner: Owner) -> Reply {
        if !self.is_owner(resource, owner) {
            return Reply::NotOwner;
        }
        self.expire_owner(resource, owner);
        match self.locks.get(resource).filter(|holders| holders.mode().is_some()) {
            // The part that has left may have been the longest.
            Some(rest) => {
                if let Some(expiry) = self.outstanding.get_mut(resource) {
                    expiry.until = rest.until().min(expiry.until);
                }
            }
            None => drop(self.outstanding.remove(resource)),
        }
        Reply::Released
    }

    pub(super) fn retire(&mut self, resource: &Resource, owner: Owner, token: Token) -> Reply {
        let (released, lease, own) = (self.release(resource, owner), Stamp::from(token), self.stamp(resource));
        if own > lease {
            // Without a count a renewal would not notice the later era.
            self.memory.counts.insert(resource.clone(), own.count);
        } else if lease.count < Stamp::MAX_COUNT {
            self.raise(resource, Stamp { count: lease.count + 1, ..lease });
        }
        released
    }

    pub(super) fn shorten(&mut self, resource: &Resource, owner: Owner, end: Time, now: Time) -> Reply {
        let Some(holders) = self.locks.get_mut(resource).filter(|it| it.has(owner)) else { return Reply::NotOwner };
        holders.shorten(owner, end);
        let until = holders.until();
        self.outstanding.insert(resource.clone(), Expiry { until, at_most: until.since(now) });
        Reply::Released
    }

    pub(super) fn acquire(&mut self, part: LockPart<'_>, now: Time) -> Reply {
        let LockPart { resource, owner, mode, .. } = part;
        let Some(nonce) = self.nonce() else { return Reply::NotAdmitted };
        if let Some(Expiry { until, .. }) = self.quarantine {
            return Reply::Quarantined { remaining: until.since(now) };
        }
        let crowded = self.memory.counts.len() >= CROWDED;
        let Stamp { era, count } = self.stamp(resource);
        // The network may repeat a request: it is answered and not counted again.
        if self.is_owner(resource, owner) {
            return Reply::Granted { stamp: Stamp { era, count }, nonce, crowded };
        }
        if let Some(held) = self.held(resource, mode, now) {
            return held;
        }
        let holders = self.locks.get(resource).filter(|_| mode == Mode::Shared);
        if let Some(until) = holders.and_then(|holders| holders.drain_until) {
            return Reply::Held { remaining: until.since(now), shared: false, holder: None };
        }
        // Readers share one count.
        let joins = count > 0 && holders.is_some_and(|holders| holders.mode().is_some());
        let count = count + u64::from(!joins);
        if count > Stamp::MAX_COUNT {
            self.memory.full = true;
            return Reply::Exhausted;
        }
        // Now and then other locks that have expired are dropped.
        if self.locks.len().is_power_of_two() {
            self.locks.retain(|_, holders| !holders.expire(now));
        }
        if self.outstanding.len().is_power_of_two() {
            self.outstanding.retain(|_, it| it.until > now);
        }
        self.memory.counts.insert(resource.clone(), count);
        self.lock(part, now);
        Reply::Granted { stamp: Stamp { era, count }, nonce, crowded }
    }

    pub(super) fn publish(&mut self, resource: &Resource, owner: Owner, nonce: Nonce, token: Token) -> Reply {
        if !self.is_owner(resource, owner) || self.nonce() != Some(nonce) {
            return Reply::NotOwner;
        }
        let stamp = Stamp::from(token);
        // Another owner had the lock in between, and then a repeated request has locked it again.
        if self.stamp(resource) > stamp {
            return Reply::NotOwner;
        }
        self.raise(resource, stamp);
        Reply::Published
    }

    pub(super) fn renew(&mut self, part: LockPart<'_>, token: Token, now: Time) -> Reply {
        let LockPart { resource, owner, mode, .. } = part;
        if let Some(Expiry { until, .. }) = self.quarantine {
            return Reply::Quarantined { remaining: until.since(now) };
        }
        if !self.is_owner(resource, owner) {
            if let Some(held) = self.held(resource, mode, now) {
                return held;
            }
            // It is set again, but never over a count that another owner has taken since.
            let (era, lease) = (self.memory.era, Stamp::from(token));
            let count = self.memory.counts.get(resource).copied();
            if count.is_some_and(|count| Stamp { era, count } > lease) {
                return Reply::NotOwner;
            }
            if mode == Mode::Shared && era <= lease.era {
                self.raise(resource, lease);
            }
        }
        self.lock(part, now);
        Reply::Renewed
    }

    /// Renews a lock that ends after `least`.
    pub(super) fn resume(&mut self, part: LockPart<'_>, least: Time, now: Time) -> Reply {
        if let Some(Expiry { until, .. }) = self.quarantine {
            return Reply::Quarantined { remaining: until.since(now) };
        }
        let holders = self.locks.get(part.resource).filter(|it| it.mode() == Some(Mode::Exclusive));
        if !holders.is_some_and(|it| it.has(part.owner) && it.until() > least) {
            return Reply::NotOwner;
        }
        self.lock(part, now);
        Reply::Renewed
    }

    fn stamp(&self, resource: &Resource) -> Stamp {
        Stamp { era: self.memory.era, count: self.memory.counts.get(resource).copied().unwrap_or(0) }
    }

    /// Raises a count that is not above the stamp.
    fn raise(&mut self, resource: &Resource, stamp: Stamp) {
        if stamp.era > self.memory.era {
            self.enter_era(stamp.era);
        }
        self.memory.counts.insert(resource.clone(), stamp.count);
    }

    /// Answers requests of one kind for several resources in one step: of locks, it grants all or none.
    pub(super) fn several(&mut self, me: &Membership, parts: &[Request], clocks: Clocks) -> Reply {
        let granted = |store: &mut Store| parts.iter().map(|part| store.answer(me, part, clocks)).collect();
        self.in_the_way(parts, clocks).unwrap_or_else(|| Reply::Several(granted(self)))
    }

    /// Returns the refusal of a request to acquire several locks, unless all of them can be granted.
    fn in_the_way(&mut self, parts: &[Request], clocks: Clocks) -> Option<Reply> {
        let mut answers = Vec::new();
        for part in parts {
            let Request::Acquire { resource, owner, mode: Mode::Exclusive, .. } = part else {
                continue;
            };
            self.expire(part, clocks.now);
            if let Some(Expiry { until, .. }) = self.quarantine {
                return Some(Reply::Quarantined { remaining: until.since(clocks.now) });
            }
            let has = self.is_owner(resource, *owner);
            let held = self.held(resource, Mode::Exclusive, clocks.now).filter(|_| !has);
            let count = self.memory.counts.get(resource);
            let free = !has && held.is_none();
            answers.push(held.unwrap_or(Reply::Free));
            if free && count.is_some_and(|n| *n >= Stamp::MAX_COUNT) {
                self.memory.full = true;
                return Some(Reply::Exhausted);
            }
        }
        answers.iter().any(|answer| *answer != Reply::Free).then_some(Reply::Several(answers))
    }
}
