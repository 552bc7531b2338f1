use fencing_protocol::{Mode, NonEmpty, Resource};
use tokio::time::Instant;

use super::release_notifications::ReleaseNotifications;
use crate::lock::error::{AcquireError, MAX_RESOURCES};
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
        if let Target::One(resource, notifications) = self.target { Some((resource, notifications)) } else { None }
    }
}

/// Resources that a caller waits for in one call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum List {
    /// The first that is free, in this order.
    Any(NonEmpty<Resource>),
    /// All of them, in the order of their names and each of them once.
    All(NonEmpty<Resource>),
}

impl List {
    pub(crate) fn any(resources: &[Resource]) -> Result<List, AcquireError> {
        bounded(resources.to_vec()).map(List::Any)
    }

    pub(crate) fn all(resources: &[Resource]) -> Result<List, AcquireError> {
        let mut resources = resources.to_vec();
        resources.sort_unstable();
        resources.dedup();
        bounded(resources).map(List::All)
    }

    pub(crate) fn resources(&self) -> &NonEmpty<Resource> {
        let (List::Any(resources) | List::All(resources)) = self;
        resources
    }
}

fn bounded(resources: Vec<Resource>) -> Result<NonEmpty<Resource>, AcquireError> {
    let count = resources.len();
    let wrong = AcquireError::WrongCount { count, most: MAX_RESOURCES };
    NonEmpty::from_vec(resources).filter(|_| count <= MAX_RESOURCES).ok_or(wrong)
}
