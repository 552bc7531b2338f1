use std::time::Duration;

use super::{CROWDED, Store};
use crate::holders::Holders;
use crate::message::{Reply, Request};
use crate::resource::Resource;
use crate::time::Time;
use crate::token::Token;
use crate::{Mode, Nonce, Owner, Stamp};

/// The life of a lock on a node: granted, published, renewed and released.
impl Store {
    pub(super) fn holds(&self, resource: &Resource, owner: Owner) -> bool {
        self.locks.get(resource).is_some_and(|holders| holders.has(owner))
    }

    /// Answers why `owner` can't hold the lock in this mode, if others stand in the way.
    pub(super) fn held(&self, resource: &Resource, mode: Mode, now: Time) -> Option<Reply> {
        let holders = self.locks.get(resource)?;
        let remaining = holders.until().since(now);
        match (mode, holders.mode()?) {
            (Mode::Shared, Mode::Shared) => None,
            (Mode::Exclusive, Mode::Shared) => Some(Reply::Shared { remaining, holder: None }),
            (_, Mode::Exclusive) => Some(Reply::Held { remaining, holder: None }),
        }
    }

    fn lock(&mut self, resource: &Resource, mode: Mode, owner: Owner, ttl: Duration, now: Time) {
        let until = now + ttl;
        self.memory.granted = true;
        let latest = self.locks.get(resource).filter(|_| mode == Mode::Shared);
        let longest = latest.map_or(until, |holders| holders.until().max(until));
        self.out.insert(resource.clone(), (longest, longest.since(now)));
        match self.locks.get_mut(resource) {
            Some(holders) => holders.add(mode, owner, until),
            None => drop(self.locks.insert(resource.clone(), Holders::new(mode, owner, until))),
        }
    }

    pub(super) fn release(&mut self, resource: &Resource, owner: Owner) -> Reply {
        if !self.holds(resource, owner) {
            return Reply::NotOwner;
        }
        if self.locks.get_mut(resource).is_some_and(|holders| holders.remove(owner)) {
            self.locks.remove(resource);
        }
        match self.locks.get(resource).filter(|holders| holders.mode().is_some()) {
            // The part that has left may have been the longest.
            Some(rest) => {
                if let Some((until, _)) = self.out.get_mut(resource) {
                    *until = rest.until().min(*until);
                }
            }
            None => drop(self.out.remove(resource)),
        }
        Reply::Released
    }

    pub(super) fn shorten(
        &mut self,
        resource: &Resource,
        owner: Owner,
        rest: Duration,
        now: Time,
    ) -> Reply {
        let Some(holders) = self.locks.get_mut(resource).filter(|holders| holders.has(owner))
        else {
            return Reply::NotOwner;
        };
        holders.shorten(owner, now + rest);
        let until = holders.until();
        self.out.insert(resource.clone(), (until, until.since(now)));
        Reply::Released
    }

    pub(super) fn acquire(
        &mut self,
        resource: &Resource,
        mode: Mode,
        owner: Owner,
        ttl: Duration,
        now: Time,
    ) -> Reply {
        let Some(nonce) = self.nonce() else { return Reply::NotAdmitted };
        if let Some((until, _)) = self.quarantine {
            return Reply::Quarantined { remaining: until.since(now) };
        }
        let crowded = self.memory.counts.len() >= CROWDED;
        let era = self.memory.era;
        let count = self.memory.counts.get(resource).copied().unwrap_or(0);
        // The network may repeat a request: it is answered and not counted again.
        if self.holds(resource, owner) {
            return Reply::Granted { stamp: Stamp { era, count }, nonce, crowded };
        }
        if let Some(held) = self.held(resource, mode, now) {
            return held;
        }
        let holders = self.locks.get(resource).filter(|_| mode == Mode::Shared);
        if let Some(until) = holders.and_then(Holders::draining) {
            return Reply::Held { remaining: until.since(now), holder: None };
        }
        // Those who share it share its count.
        if count > 0 && holders.is_some_and(|holders| holders.mode().is_some()) {
            self.lock(resource, mode, owner, ttl, now);
            return Reply::Granted { stamp: Stamp { era, count }, nonce, crowded };
        }
        if count >= Stamp::MAX_COUNT {
            self.memory.full = true;
            return Reply::Exhausted;
        }
        // Now and then other locks that have expired are dropped.
        if self.locks.len().is_power_of_two() {
            self.locks.retain(|_, holders| !holders.expire(now));
        }
        if self.out.len().is_power_of_two() {
            self.out.retain(|_, (until, _)| *until > now);
        }
        self.memory.counts.insert(resource.clone(), count + 1);
        self.lock(resource, mode, owner, ttl, now);
        Reply::Granted { stamp: Stamp { era, count: count + 1 }, nonce, crowded }
    }

    pub(super) fn publish(
        &mut self,
        resource: &Resource,
        owner: Owner,
        nonce: Nonce,
        token: Token,
    ) -> Reply {
        if !self.holds(resource, owner) || self.nonce() != Some(nonce) {
            return Reply::NotOwner;
        }
        let stamp = Stamp::from(token);
        let (era, count) = (self.memory.era, self.memory.counts.get(resource));
        // Another owner was here in between, and a repeated request has locked again.
        if (Stamp { era, count: count.copied().unwrap_or(0) }) > stamp {
            return Reply::NotOwner;
        }
        self.raise(resource, stamp);
        Reply::Published
    }

    pub(super) fn renew(&mut self, request: &Request, now: Time) -> Reply {
        let (mode, resource, owner, token, ttl) = match request {
            Request::Renew { resource, owner, token, ttl } => {
                (Mode::Exclusive, resource, *owner, *token, *ttl)
            }
            Request::RenewShare { resource, owner, token, ttl } => {
                (Mode::Shared, resource, *owner, *token, *ttl)
            }
            _ => return Reply::NotOwner,
        };
        if let Some((until, _)) = self.quarantine {
            return Reply::Quarantined { remaining: until.since(now) };
        }
        if !self.holds(resource, owner) {
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
        self.lock(resource, mode, owner, ttl, now);
        Reply::Renewed
    }

    /// Raises a count that is not above the stamp.
    fn raise(&mut self, resource: &Resource, stamp: Stamp) {
        if stamp.era > self.memory.era {
            self.enter_era(stamp.era);
        }
        self.memory.counts.insert(resource.clone(), stamp.count);
    }
}
