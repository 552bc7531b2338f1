use std::collections::BTreeMap;
use std::time::Duration;

use super::holders::Holders;
use super::message::{Prepared, Reply, Report, Request, Sealing, State};
use super::place::Place;
use super::{Fleet, Membership, Mode, Nonce, Owner, Stamp};
use crate::resource::Resource;
use crate::time::Time;
use crate::token::Token;

/// How many counts a node keeps before it asks for a new era.
pub const CROWDED: usize = 100_000;

/// The memory of one node, and how it answers: the protocol's other half.
///
/// Memory nodes run it, the model check explores it, and the Redis scripts do the same
/// step for step. One contract suite checks all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Store {
    locks: BTreeMap<Resource, Holders>,
    /// When each lock ends by itself that was granted or renewed here and not released.
    out: BTreeMap<Resource, Lasting>,
    quarantine: Option<Lasting>,
    memory: Memory,
}

/// The server's clocks at one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Moment {
    /// The clock by which locks expire.
    pub now: Time,
    /// The clock by which eras are named: the time since 2026-01-01T00:00:00Z.
    pub clock: Duration,
    /// How long the server has been up.
    pub uptime: Duration,
}

/// Until when it lasts, and for how long at most: the clock may be set back.
type Lasting = (Time, Duration);

/// Everything that a node keeps or forgets as a whole: one hash on a Redis node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Memory {
    place: Place,
    prepared: Option<(super::Incarnation, Nonce)>,
    /// Whether a node that has left its fleet has a nonce for the new one.
    joining: bool,
    era: u64,
    reserved: u64,
    granted: bool,
    /// Whether a count has run out.
    full: bool,
    counts: BTreeMap<Resource, u64>,
}

impl Store {
    /// Answers one request of a session, in one atomic step.
    pub fn answer(&mut self, me: &Membership, request: &Request, moment: Moment) -> Reply {
        self.expire(request, moment.now);
        match request {
            Request::Prepare { nonce, from } => {
                return self.prepare(me, *nonce, from.as_ref(), moment);
            }
            Request::Activate { .. } => return self.activate(me, request, moment.now),
            Request::Reserve { era, memory } => return self.reserve(me, *era, *memory),
            Request::Seal { to, step } => return self.seal(me, to, *step, moment.now),
            _ => {}
        }
        if !self.admits(me) {
            return self.refusal(me);
        }
        match request {
            Request::Acquire { resource, owner, ttl } => {
                self.acquire(resource, Mode::Exclusive, *owner, *ttl, moment.now)
            }
            Request::Share { resource, owner, ttl } => {
                self.acquire(resource, Mode::Shared, *owner, *ttl, moment.now)
            }
            Request::Drain { resource, lasting } => {
                if let Some(holders) = self.locks.get_mut(resource) {
                    holders.drain(moment.now + *lasting);
                }
                Reply::Draining
            }
            Request::Publish { resource, owner, nonce, token } => {
                self.publish(resource, *owner, *nonce, *token)
            }
            Request::Renew { .. } | Request::RenewShare { .. } => self.renew(request, moment.now),
            Request::Release { resource, owner } => self.release(resource, *owner),
            Request::Open { nonce } => {
                if self.nonce() != Some(*nonce) {
                    return Reply::Forgotten;
                }
                self.quarantine = None;
                Reply::Opened
            }
            Request::Inspect => Reply::Report(Report {
                state: self.state(moment.now),
                quarantine: self.quarantine.map(|(until, _)| until.since(moment.now)),
                counts: self.memory.counts.len() as u64,
            }),
            Request::Read
            | Request::Prepare { .. }
            | Request::Activate { .. }
            | Request::Reserve { .. }
            | Request::Seal { .. } => Reply::State(self.state(moment.now)),
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

    /// Lets the part of `owner` in the lock vanish.
    pub fn expire_owner(&mut self, resource: &Resource, owner: Owner) {
        if self.locks.get_mut(resource).is_some_and(|holders| holders.remove(owner)) {
            self.locks.remove(resource);
        }
    }

    fn expire(&mut self, request: &Request, now: Time) {
        if let Some(resource) = request.resource() {
            if self.locks.get_mut(resource).is_some_and(|holders| holders.expire(now)) {
                self.locks.remove(resource);
            }
            if self.out.get(resource).is_some_and(|(until, _)| *until <= now) {
                self.out.remove(resource);
            }
        }
        self.quarantine = self.quarantine.filter(|(until, _)| *until > now);
    }

    fn admits(&self, me: &Membership) -> bool {
        matches!(&self.memory.place, Place::Admitted(at) if at == me)
    }

    fn refusal(&self, me: &Membership) -> Reply {
        self.memory.place.elsewhere(me).unwrap_or(Reply::NotAdmitted)
    }

    fn nonce(&self) -> Option<Nonce> {
        self.memory.prepared.as_ref().map(|(_, nonce)| *nonce)
    }

    fn state(&self, now: Time) -> State {
        let left = |(until, most): &Lasting| until.since(now).min(*most);
        let out = self.out.values().chain(&self.quarantine).map(left).max();
        let longest = out.unwrap_or_default();
        State {
            nonce: self.nonce().unwrap_or(Nonce(0)),
            era: self.memory.era,
            reserved: self.memory.reserved,
            longest,
        }
    }

    fn crowded(&self) -> bool {
        self.memory.full || self.memory.counts.len() >= CROWDED
    }

    fn holds(&self, resource: &Resource, owner: Owner) -> bool {
        self.locks.get(resource).is_some_and(|holders| holders.has(owner))
    }

    /// Answers why `owner` can't hold the lock in this mode, if others stand in the way.
    fn held(&self, resource: &Resource, mode: Mode, now: Time) -> Option<Reply> {
        let holders = self.locks.get(resource)?;
        let remaining = holders.until().since(now);
        match (mode, holders.mode()?) {
            (Mode::Shared, Mode::Shared) => None,
            (Mode::Exclusive, Mode::Shared) => Some(Reply::Shared { remaining }),
            (_, Mode::Exclusive) => Some(Reply::Held { remaining }),
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

    fn release(&mut self, resource: &Resource, owner: Owner) -> Reply {
        if !self.holds(resource, owner) {
            return Reply::NotOwner;
        }
        if self.locks.get_mut(resource).is_some_and(|holders| holders.remove(owner)) {
            self.locks.remove(resource);
        }
        if self.locks.get(resource).and_then(Holders::mode).is_none() {
            self.out.remove(resource);
        }
        Reply::Released
    }

    fn acquire(
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
            return Reply::Held { remaining: until.since(now) };
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

    fn publish(&mut self, resource: &Resource, owner: Owner, nonce: Nonce, token: Token) -> Reply {
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

    fn renew(&mut self, request: &Request, now: Time) -> Reply {
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

    /// Begins a larger era, in which the counts begin again.
    fn enter_era(&mut self, era: u64) {
        self.memory.era = era;
        self.memory.full = false;
        self.memory.counts.clear();
    }

    fn prepare(
        &mut self,
        me: &Membership,
        fresh: Nonce,
        from: Option<&Fleet>,
        moment: Moment,
    ) -> Reply {
        if let (Place::Sealed(at, to, started), Some(from)) = (&mut self.memory.place, from)
            && at.incarnation == me.incarnation
            && *to != me.fleet
            && (*started || to == from)
        {
            *to = me.fleet.clone();
            self.memory.joining = false;
        }
        if let Some(refusal) = self.memory.place.elsewhere(me) {
            return refusal;
        }
        let older = |life: &super::Incarnation| *life != me.incarnation;
        let blank = !self.memory.granted
            && !self.memory.prepared.as_ref().is_some_and(|(life, _)| older(life))
            && match &self.memory.place {
                Place::Nowhere => true,
                Place::Admitted(at) => at == me,
                Place::Sealed(..) => false,
            };
        // A node that joins gets a nonce of its own. Otherwise a mover that was asleep while the
        // node came and went would believe that it had been away all the while.
        let joins = !self.memory.joining && matches!(self.memory.place, Place::Sealed(..));
        if joins || self.memory.prepared.as_ref().is_none_or(|(life, _)| older(life)) {
            self.memory.prepared = Some((me.incarnation.clone(), fresh));
            self.memory.joining = joins;
        }
        Reply::Prepared(Prepared {
            incarnation: me.incarnation.clone(),
            admitted: self.admits(me),
            blank,
            crowded: self.admits(me) && self.crowded(),
            other: self.memory.place.other(&me.fleet).cloned(),
            state: self.state(moment.now),
            clock: moment.clock,
            uptime: moment.uptime,
        })
    }

    fn is_prepared(&self, me: &Membership, nonce: Nonce) -> bool {
        let prepared = self.memory.prepared.as_ref();
        prepared.is_some_and(|(life, here)| *life == me.incarnation && *here == nonce)
    }

    fn reserve(&mut self, me: &Membership, era: u64, memory: Option<Nonce>) -> Reply {
        let about_to_start = || {
            memory.is_some_and(|nonce| self.is_prepared(me, nonce))
                && self.memory.place.elsewhere(me).is_none()
        };
        if !self.admits(me) && !about_to_start() {
            return self.refusal(me);
        }
        self.memory.reserved = self.memory.reserved.max(era);
        self.nonce().map_or(Reply::NotAdmitted, |nonce| Reply::Reserved { nonce })
    }

    fn activate(&mut self, me: &Membership, request: &Request, now: Time) -> Reply {
        let Request::Activate { incarnation, nonce, era, collect, quarantine, new } = request
        else {
            return Reply::Forgotten;
        };
        if let Some(refusal) = self.memory.place.elsewhere(me) {
            return refusal;
        }
        if *incarnation != me.incarnation || !self.is_prepared(me, *nonce) || *era > Stamp::MAX_ERA
        {
            return Reply::Forgotten;
        }
        if self.admits(me) {
            // Racing re-admissions and collections do not drive the era on.
            if *collect && self.crowded() && *era > self.memory.era {
                self.enter_era(*era);
                self.memory.reserved = self.memory.reserved.max(*era);
            }
            return Reply::Activated;
        }
        if *era <= self.memory.era {
            return Reply::Forgotten;
        }
        self.enter_era(*era);
        self.memory.place = Place::Admitted(me.clone());
        self.memory.granted = !new;
        self.memory.reserved = self.memory.reserved.max(*era);
        if !quarantine.is_zero() {
            self.quarantine = self.quarantine.max(Some((now + *quarantine, *quarantine)));
        }
        Reply::Activated
    }

    fn seal(&mut self, me: &Membership, to: &Fleet, step: Sealing, now: Time) -> Reply {
        let there = Membership { fleet: to.clone(), ..me.clone() };
        let left = match &self.memory.place {
            Place::Sealed(at, other, _) => at == me && other == to,
            // It has left for the new fleet and belongs to that by now.
            Place::Admitted(at) => *at == there && there != *me,
            Place::Nowhere => false,
        };
        let leaves = match step {
            Sealing::Leave => true,
            Sealing::Promise(_) => false,
            Sealing::Done(era) => self.memory.era < era,
        };
        if self.admits(me) && to != &me.fleet {
            // A mover that wakes up late must not undo what others have done since.
            if !leaves {
                return Reply::Forgotten;
            }
            self.memory.place = Place::Sealed(me.clone(), to.clone(), false);
            self.memory.joining = false;
        } else if !left {
            return self.refusal(me);
        }
        if let (Sealing::Done(_), Place::Sealed(_, _, started)) = (step, &mut self.memory.place) {
            *started = true;
        }
        if let Sealing::Promise(era) = step {
            self.memory.reserved = self.memory.reserved.max(era);
        }
        Reply::Sealed(self.state(now))
    }
}
