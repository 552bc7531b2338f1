use std::collections::BTreeMap;
use std::time::Duration;

use super::{Mode, Owner, Time};

/// The holders of one resource's lock on a node: one exclusive, or several shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Holders {
    mode: Mode,
    /// Whether it was released, and stays held for the rest of its time.
    released: bool,
    /// The expiry of each part.
    ends: BTreeMap<Owner, Time>,
    /// The end of the drain, in which no reader joins, because a writer waits.
    pub(super) drain_until: Option<Time>,
    /// When the next drain may begin: between the two, readers may join.
    next_drain_at: Option<Time>,
}

/// The longest drain, however many clients wait for it. After it, others may join for as long.
const MAX_DRAIN: Duration = Duration::from_secs(20);

impl Holders {
    pub(super) fn new(mode: Mode, owner: Owner, until: Time) -> Holders {
        let ends = BTreeMap::from([(owner, until)]);
        Holders { mode, released: false, ends, drain_until: None, next_drain_at: None }
    }

    /// Returns the mode, if the lock is held.
    pub(super) fn mode(&self) -> Option<Mode> {
        (!self.ends.is_empty()).then_some(self.mode)
    }

    /// Reports whether the owner may renew or release it.
    pub(super) fn has(&self, owner: Owner) -> bool {
        !self.released && self.ends.contains_key(&owner)
    }

    /// Returns the one whose part ends last.
    pub(super) fn last(&self) -> Option<Owner> {
        self.ends.iter().max_by_key(|(_, until)| **until).map(|(owner, _)| *owner)
    }

    /// Returns when the last of them ends.
    pub(super) fn until(&self) -> Time {
        self.ends.values().copied().max().unwrap_or_default()
    }

    /// Keeps others from joining for a time, within the limit of [`MAX_DRAIN`].
    pub(super) fn drain(&mut self, lasting: Duration, now: Time) {
        if self.mode == Mode::Exclusive {
            return;
        }
        let latest = now + MAX_DRAIN * 2;
        let end = self.next_drain_at.map_or(latest, |end| end.min(latest));
        self.next_drain_at = Some(end);
        let lasting = lasting.min(end.since(now).saturating_sub(MAX_DRAIN));
        if !lasting.is_zero() {
            self.drain_until = self.drain_until.max(Some(now + lasting));
        }
    }

    /// Adds an owner, or moves its end. Of two modes the new one takes the place of the old one.
    pub(super) fn add(&mut self, mode: Mode, owner: Owner, until: Time) {
        if (self.mode, mode) == (Mode::Shared, Mode::Shared) {
            self.ends.insert(owner, until);
        } else {
            *self = Holders::new(mode, owner, until);
        }
    }

    /// Ends the part of an owner at `until`, unless it ends before. An exclusive owner cannot renew the lock any more.
    pub(super) fn shorten(&mut self, owner: Owner, until: Time) {
        if let Some(end) = self.ends.get_mut(&owner) {
            (self.released, *end) = (self.mode == Mode::Exclusive, until.min(*end));
        }
    }

    /// Removes an owner. `true` if nothing is left.
    pub(super) fn remove(&mut self, owner: Owner) -> bool {
        self.ends.remove(&owner);
        self.ends.is_empty() && self.drain_until.is_none()
    }

    /// Removes what has ended. `true` if nothing is left.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        self.ends.retain(|_, until| *until > now);
        self.drain_until = self.drain_until.filter(|until| *until > now);
        self.next_drain_at = self.next_drain_at.filter(|until| *until > now);
        self.ends.is_empty() && self.drain_until.is_none()
    }
}
