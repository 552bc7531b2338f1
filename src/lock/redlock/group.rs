use std::time::Duration;

use fencing_protocol::{Mode, Request};
use smallvec::SmallVec;

/// The parts of a call: mostly one.
pub type Group<T> = SmallVec<[T; 1]>;

/// The kinds of requests that may go together in one call, in the order in which a node carries them out: about
/// one exclusive lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupKind {
    Release,
    Acquire,
    Renew,
}

impl GroupKind {
    pub(super) fn of(request: &Request) -> Option<GroupKind> {
        match request {
            Request::Release { .. } => Some(GroupKind::Release),
            Request::Acquire { mode: Mode::Exclusive, .. } => Some(GroupKind::Acquire),
            Request::Renew { mode: Mode::Exclusive, .. } => Some(GroupKind::Renew),
            _ => None,
        }
    }
}

/// Returns the TTL that a renewal asks for: those of one call all ask for the same.
pub(super) fn renewed_for(request: &Request) -> Option<Duration> {
    if let Request::Renew { ttl, .. } = request { Some(*ttl) } else { None }
}
