mod locks;

use std::collections::BTreeMap;
use std::time::Duration;

use super::holders::Holders;
use super::message::{NodeState, Prepared, Reply, Request, Sealing};
use super::{Fleet, Incarnation, Membership, Mode, Nonce, Owner, Resource, Stamp, Time};

/// The server's clocks at one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Clocks {
    /// The clock by which locks expire.
    pub now: Time,
    /// The clock by which eras are named: the time since 2026-01-01T00:00:00Z.
    pub clock: Duration,
    /// The server's uptime.
    pub uptime: Duration,
}

/// Counts that a node keeps before it asks for a new era.
pub const CROWDED: usize = 100_000;

/// The memory of one node, and how it answers: the protocol's other half.
///
/// Memory nodes run it, the model check explores it, and the Redis scripts do the same
/// step for step. One contract suite checks all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Store {
    locks: BTreeMap<Resource, Holders>,
    /// The expiry of each lock that was granted or renewed here and not released.
    outstanding: BTreeMap<Resource, Expiry>,
    quarantine: Option<Expiry>,
    memory: Memory,
}

/// Until when it lasts, and for how long at most: the clock may be set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Expiry {
    until: Time,
    at_most: Duration,
}

/// Everything that a node keeps or forgets as a whole: one hash on a Redis node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Memory {
    affiliation: Affiliation,
    prepared: Option<(Incarnation, Nonce)>,
    /// Whether a node that has left its fleet has a nonce for the new one.
    joining: bool,
    era: u64,
    reserved: u64,
    granted: bool,
    /// Whether a count has run out.
    full: bool,
    counts: BTreeMap<Resource, u64>,
}

/// What an owner asks for, or renews: its part of a lock.
#[derive(Clone, Copy)]
struct LockPart<'a> {
    resource: &'a Resource,
    owner: Owner,
    mode: Mode,
    until: Time,
}

/// The fleet that a node belongs to, in the life that is written there: in a later one it forgot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
enum Affiliation {
    #[default]
    None,
    Admitted(Membership),
    /// It has left for another fleet.
    Sealed {
        from: Membership,
        to: Fleet,
        /// Whether that fleet was started: the node may join any other then.
        started: bool,
    },
}

impl Affiliation {
    /// Returns the fleet other than `mine` that is written there, in whatever life.
    fn other(&self, mine: &Fleet) -> Option<&Fleet> {
        match self {
            Affiliation::None => None,
            Affiliation::Admitted(at) => Some(&at.fleet).filter(|fleet| *fleet != mine),
            // This also holds where it has come back to the fleet that it left.
            Affiliation::Sealed { from, to, .. } => Some(if to == mine { &from.fleet } else { to }),
        }
    }

    /// Returns the refusal, if the node belongs to another fleet than `me`.
    fn elsewhere(&self, me: &Membership) -> Option<Reply> {
        let (at, fleet, refusal): (_, _, fn(Fleet) -> Reply) = match self {
            Affiliation::None => return None,
            Affiliation::Admitted(at) => (at, &at.fleet, Reply::OtherFleet),
            Affiliation::Sealed { from, to, .. } => (from, to, Reply::Moved),
        };
        let elsewhere = at.incarnation == me.incarnation && *fleet != me.fleet;
        elsewhere.then(|| refusal(fleet.clone()))
    }
}

impl Store {
    /// Answers one request of a session, in one atomic step.
    pub fn answer(&mut self, me: &Membership, request: &Request, clocks: Clocks) -> Reply {
        let now = clocks.now;
        self.expire(request, now);
        match *request {
            Request::Prepare { nonce, ref from } => self.prepare(me, nonce, from.as_ref(), clocks),
            Request::Activate { nonce, era, collect, quarantine, new } => match self.no_activation(me, nonce, era) {
                Some(refusal) => refusal,
                None if self.admits(me) => self.collect(era, collect),
                None => self.activate(me, era, new, Expiry { until: now + quarantine, at_most: quarantine }),
            },
            Request::Reserve { era, memory } => self.reserve(me, era, memory),
            Request::Seal { ref to, step } => self.seal(me, to, step, now),
            _ if !self.admits(me) => self.refusal(me),
            Request::Several(ref parts) => self.several(me, parts, clocks),
            Request::Open { nonce } if self.nonce() == Some(nonce) => {
                self.quarantine = None;
                Reply::Opened
            }
            Request::Open { .. } => Reply::Forgotten,
            Request::Inspect => Reply::Report {
                state: self.state(now),
                quarantine: self.quarantine.map(|it| it.until.since(now)),
                counts: self.memory.counts.len() as u64,
            },
            Request::Read => Reply::State(self.state(now)),
            Request::Acquire { ref resource, owner, mode, ttl } => {
                self.acquire(LockPart { resource, owner, mode, until: now + ttl }, now)
            }
            Request::Drain { ref resource, lasting } => self.drain(resource, lasting, now),
            Request::Publish { ref resource, owner, nonce, token } => self.publish(resource, owner, nonce, token),
            Request::Renew { ref resource, owner, mode, token, ttl } => {
                self.renew(LockPart { resource, owner, mode, until: now + ttl }, token, now)
            }
            Request::Resume { ref resource, owner, least, ttl } => {
                self.resume(LockPart { resource, owner, mode: Mode::Exclusive, until: now + ttl }, now + least, now)
            }
            Request::Release { ref resource, owner } => self.release(resource, owner),
            Request::Retire { ref resource, owner, token } => self.retire(resource, owner, token),
            Request::Shorten { ref resource, owner, rest } => self.shorten(resource, owner, now + rest, now),
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

    /// Returns the holder of the lock. Of several readers it is the one whose part ends last.
    pub fn owner(&self, resource: &Resource) -> Option<Owner> {
        self.locks.get(resource)?.last()
    }

    /// Reports whether this owner holds the lock, perhaps with others.
    pub fn is_owner(&self, resource: &Resource, owner: Owner) -> bool {
        self.locks.get(resource).is_some_and(|holders| holders.has(owner))
    }

    /// Reports whether the lock of the resource is held.
    pub fn is_locked(&self, resource: &Resource, now: Time) -> bool {
        let holders = self.locks.get(resource);
        holders.is_some_and(|holders| holders.mode().is_some() && now < holders.until())
    }

    fn expire(&mut self, request: &Request, now: Time) {
        if let Some((resource, _)) = request.lock() {
            if self.locks.get_mut(resource).is_some_and(|holders| holders.expire(now)) {
                self.locks.remove(resource);
            }
            if self.outstanding.get(resource).is_some_and(|it| it.until <= now) {
                self.outstanding.remove(resource);
            }
        }
        self.quarantine = self.quarantine.filter(|it| it.until > now);
    }

    fn admits(&self, me: &Membership) -> bool {
        matches!(&self.memory.affiliation, Affiliation::Admitted(at) if at == me)
    }

    fn refusal(&self, me: &Membership) -> Reply {
        self.memory.affiliation.elsewhere(me).unwrap_or(Reply::NotAdmitted)
    }

    fn nonce(&self) -> Option<Nonce> {
        self.memory.prepared.as_ref().map(|(_, nonce)| *nonce)
    }

    fn state(&self, now: Time) -> NodeState {
        let left = |it: &Expiry| it.until.since(now).min(it.at_most);
        let longest = self.outstanding.values().chain(&self.quarantine).map(left).max().unwrap_or_default();
        NodeState {
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

    fn prepare(&mut self, me: &Membership, new: Nonce, from: Option<&Fleet>, at: Clocks) -> Reply {
        if let (Affiliation::Sealed { from: left, to, started }, Some(from)) = (&mut self.memory.affiliation, from)
            && left.incarnation == me.incarnation
            && *to != me.fleet
            && (*started || to == from)
        {
            *to = me.fleet.clone();
            self.memory.joining = false;
        }
        if let Some(refusal) = self.memory.affiliation.elsewhere(me) {
            return refusal;
        }
        let older = |life: &Incarnation| *life != me.incarnation;
        let blank = !self.memory.granted
            && !self.memory.prepared.as_ref().is_some_and(|(life, _)| older(life))
            && match &self.memory.affiliation {
                Affiliation::None => true,
                Affiliation::Admitted(at) => at == me,
                Affiliation::Sealed { .. } => false,
            };
        // A node that joins gets a nonce of its own. Otherwise a mover that was asleep while the
        // node came and went would believe that it had been away all the while.
        let joins = !self.memory.joining && matches!(self.memory.affiliation, Affiliation::Sealed { .. });
        if joins || self.memory.prepared.as_ref().is_none_or(|(life, _)| older(life)) {
            self.memory.prepared = Some((me.incarnation.clone(), new));
            self.memory.joining |= joins;
        }
        Reply::Prepared(Prepared {
            admitted: self.admits(me),
            blank,
            crowded: self.admits(me) && self.crowded(),
            other: self.memory.affiliation.other(&me.fleet).cloned(),
            state: self.state(at.now),
            clock: at.clock,
            uptime: at.uptime,
        })
    }

    fn is_prepared(&self, me: &Membership, nonce: Nonce) -> bool {
        let prepared = self.memory.prepared.as_ref();
        prepared.is_some_and(|(life, here)| *life == me.incarnation && *here == nonce)
    }

    fn reserve(&mut self, me: &Membership, era: u64, memory: Option<Nonce>) -> Reply {
        let about_to_start = || {
            memory.is_some_and(|nonce| self.is_prepared(me, nonce)) && self.memory.affiliation.elsewhere(me).is_none()
        };
        if !self.admits(me) && !about_to_start() {
            return self.refusal(me);
        }
        self.memory.reserved = self.memory.reserved.max(era);
        self.nonce().map_or(Reply::NotAdmitted, |nonce| Reply::Reserved { nonce })
    }

    /// Returns why the node can't be activated in this era, if it can't.
    fn no_activation(&self, me: &Membership, nonce: Nonce, era: u64) -> Option<Reply> {
        let fits = self.is_prepared(me, nonce) && era <= Stamp::MAX_ERA;
        self.memory.affiliation.elsewhere(me).or((!fits).then_some(Reply::Forgotten))
    }

    /// Drops the counts of an admitted node, if it is still crowded: racing re-admissions and collections do not drive
    /// the era on.
    fn collect(&mut self, era: u64, collect: bool) -> Reply {
        if collect && self.crowded() && era > self.memory.era {
            self.enter_era(era);
            self.memory.reserved = self.memory.reserved.max(era);
        }
        Reply::Activated
    }

    fn activate(&mut self, me: &Membership, era: u64, new: bool, quarantine: Expiry) -> Reply {
        if era <= self.memory.era {
            return Reply::Forgotten;
        }
        self.enter_era(era);
        self.memory.affiliation = Affiliation::Admitted(me.clone());
        self.memory.granted = !new;
        self.memory.reserved = self.memory.reserved.max(era);
        if !quarantine.at_most.is_zero() {
            self.quarantine = self.quarantine.max(Some(quarantine));
        }
        Reply::Activated
    }

    fn seal(&mut self, me: &Membership, to: &Fleet, step: Sealing, now: Time) -> Reply {
        let there = Membership { fleet: to.clone(), ..me.clone() };
        let left = match &self.memory.affiliation {
            Affiliation::Sealed { from, to: other, .. } => from == me && other == to,
            // It has left for the new fleet and belongs to that by now.
            Affiliation::Admitted(at) => *at == there && there != *me,
            Affiliation::None => false,
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
            self.memory.affiliation = Affiliation::Sealed { from: me.clone(), to: to.clone(), started: false };
            self.memory.joining = false;
        } else if !left {
            return self.refusal(me);
        }
        if let (Sealing::Done(_), Affiliation::Sealed { started, .. }) = (step, &mut self.memory.affiliation) {
            *started = true;
        }
        if let Sealing::Promise(era) = step {
            self.memory.reserved = self.memory.reserved.max(era);
        }
        Reply::State(self.state(now))
    }
}
