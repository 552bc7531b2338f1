use std::collections::BTreeMap;
use std::time::Duration;

use super::{Mode, Owner};
use crate::time::Time;

/// Those who hold the lock of one resource on a node, each until its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Holders {
    One(Owner, Time),
    Several {
        ends: BTreeMap<Owner, Time>,
        /// Until when nobody joins them, because somebody waits for all of them to leave.
        draining: Option<Time>,
        /// Until when this time and the turn of those who join go on. It is of no use by itself.
        drained: Option<Time>,
    },
}

/// For how long others are kept from joining at most, however many wait for that. After that they may join for as long.
const LONGEST_DRAIN: Duration = Duration::from_secs(20);

impl Holders {
    pub(super) fn new(mode: Mode, owner: Owner, until: Time) -> Holders {
        match mode {
            Mode::Exclusive => Holders::One(owner, until),
            Mode::Shared => {
                let ends = BTreeMap::from([(owner, until)]);
                Holders::Several { ends, draining: None, drained: None }
            }
        }
    }

    /// Returns the mode, if anybody holds the lock.
    pub(super) fn mode(&self) -> Option<Mode> {
        match self {
            Holders::One(..) => Some(Mode::Exclusive),
            Holders::Several { ends, .. } => (!ends.is_empty()).then_some(Mode::Shared),
        }
    }

    pub(super) fn has(&self, owner: Owner) -> bool {
        match self {
            Holders::One(holder, _) => *holder == owner,
            Holders::Several { ends, .. } => ends.contains_key(&owner),
        }
    }

    /// Returns the one whose part ends last.
    pub(super) fn last(&self) -> Option<Owner> {
        match self {
            Holders::One(holder, _) => Some(*holder),
            Holders::Several { ends, .. } => {
                ends.iter().max_by_key(|(_, until)| **until).map(|(owner, _)| *owner)
            }
        }
    }

    /// Returns when the last of them ends.
    pub(super) fn until(&self) -> Time {
        match self {
            Holders::One(_, until) => *until,
            Holders::Several { ends, .. } => ends.values().copied().max().unwrap_or_default(),
        }
    }

    /// Returns until when nobody joins, if somebody waits for all of them to leave.
    pub(super) fn draining(&self) -> Option<Time> {
        match self {
            Holders::One(..) => None,
            Holders::Several { draining, .. } => *draining,
        }
    }

    /// Keeps others from joining for a time, unless they have been kept from it for long.
    pub(super) fn drain(&mut self, lasting: Duration, now: Time) {
        if let Holders::Several { draining, drained, .. } = self {
            let turns = now + LONGEST_DRAIN * 2;
            let end = drained.map_or(turns, |end| end.min(turns));
            *drained = Some(end);
            let lasting = lasting.min(end.since(now).saturating_sub(LONGEST_DRAIN));
            if !lasting.is_zero() {
                *draining = (*draining).max(Some(now + lasting));
            }
        }
    }

    /// Adds an owner, or moves its end. Of two modes the new one takes the place of the old one.
    pub(super) fn add(&mut self, mode: Mode, owner: Owner, until: Time) {
        match (self, mode) {
            (Holders::Several { ends, .. }, Mode::Shared) => drop(ends.insert(owner, until)),
            (holders, mode) => *holders = Holders::new(mode, owner, until),
        }
    }

    /// Has the part of an owner end then, if it does not end before.
    pub(super) fn shorten(&mut self, owner: Owner, until: Time) {
        let end = match self {
            Holders::One(_, end) => Some(end),
            Holders::Several { ends, .. } => ends.get_mut(&owner),
        };
        if let Some(end) = end {
            *end = until.min(*end);
        }
    }

    /// Takes off an owner. `true` if nothing is left.
    pub(super) fn remove(&mut self, owner: Owner) -> bool {
        match self {
            Holders::One(holder, _) => *holder == owner,
            Holders::Several { ends, draining, .. } => {
                ends.remove(&owner);
                ends.is_empty() && draining.is_none()
            }
        }
    }

    /// Takes off what has ended. `true` if nothing is left.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        match self {
            Holders::One(_, until) => *until <= now,
            Holders::Several { ends, draining, drained } => {
                ends.retain(|_, until| *until > now);
                *draining = draining.filter(|until| *until > now);
                *drained = drained.filter(|until| *until > now);
                ends.is_empty() && draining.is_none()
            }
        }
    }
}
