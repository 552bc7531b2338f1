mod locks;
mod several;

use std::collections::BTreeMap;
use std::time::Duration;

use super::holders::Holders;
use super::message::{Reply, Request, Sealing};
use super::place::Place;
use super::state::{Prepared, Report, State};
use super::{Fleet, Membership, Mode, Moment, Nonce, Owner, Stamp};
use crate::resource::Resource;
use crate::time::Time;

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
            Request::Several(parts) => return self.several(me, parts, moment),
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
                    holders.drain(*lasting, moment.now);
                }
                Reply::Draining
            }
            Request::Publish { resource, owner, nonce, token } => {
                self.publish(resource, *owner, *nonce, *token)
            }
            Request::Renew { .. } | Request::RenewShare { .. } => self.renew(request, moment.now),
            Request::Release { resource, owner } => self.release(resource, *owner),
            Request::Shorten { resource, owner, rest } => {
                self.shorten(resource, *owner, *rest, moment.now)
            }
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
            | Request::Several(_)
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
    #[allow(dead_code, reason = "the model check has it happen")]
    pub fn expire_owner(&mut self, resource: &Resource, owner: Owner) {
        if self.locks.get_mut(resource).is_some_and(|holders| holders.remove(owner)) {
            self.locks.remove(resource);
        }
    }

    /// Returns who holds the lock: of those who share it the one whose part ends last.
    #[must_use]
    pub fn owner(&self, resource: &Resource) -> Option<Owner> {
        self.locks.get(resource)?.last()
    }

    /// Reports whether this owner holds the lock, perhaps with others.
    #[must_use]
    pub fn is_owner(&self, resource: &Resource, owner: Owner) -> bool {
        self.holds(resource, owner)
    }

    /// Reports whether somebody holds the lock of the resource.
    #[must_use]
    pub fn is_locked(&self, resource: &Resource, now: Time) -> bool {
        let holders = self.locks.get(resource);
        holders.is_some_and(|holders| holders.mode().is_some() && now < holders.until())
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
