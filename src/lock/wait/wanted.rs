use fencing_protocol::{Mode, Resource};
use tokio::time::Instant;

use super::list::List;
use super::release_notifications::ReleaseNotifications;
use crate::lock::settings::Settings;

/// How an attempt asks for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    pub(crate) mode: Mode,
    /// Until when the caller waits.
    pub(crate) end: Instant,
    /// Whether it asks again until then if it is not granted, and meanwhile keeps others from joining a shared lease.
    pub(crate) drains: bool,
}

impl Ask {
    /// Asks without keeping others from a shared lease.
    pub(crate) fn new(mode: Mode, end: Instant) -> Ask {
        Ask { mode, end, drains: false }
    }
}

/// The resources that a caller waits for, and since when.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) ask: Ask,
    pub(crate) since: Instant,
    pub(crate) settings: &'a Settings,
    pub(crate) target: Target<'a>,
}

#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    /// One resource, and what servers report of releases.
    One(&'a Resource, &'a ReleaseNotifications),
    /// Servers report nothing of lists.
    List(&'a List),
}

impl<'a> Wanted<'a> {
    pub(crate) fn has_remote_waiters(&self) -> bool {
        self.notifications().is_some_and(|(resource, it)| it.has_remote_waiters(resource))
    }

    /// Reports whether clients of other processes may wait for the resource without being known here: they poll.
    pub(crate) fn has_unknown_waiters(&self) -> bool {
        self.notifications().is_some_and(|(_, it)| !it.report_remote_waiters())
    }

    /// Reports whether the lease blocks all other callers. A list may have others that are free.
    pub(crate) fn blocks_all(&self) -> bool {
        self.ask.mode == Mode::Exclusive && self.notifications().is_some()
    }

    pub(crate) fn notifications(&self) -> Option<(&'a Resource, &'a ReleaseNotifications)> {
        match self.target {
            Target::One(resource, notifications) => Some((resource, notifications)),
            Target::List(_) => None,
        }
    }
}
