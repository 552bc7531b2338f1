//! The protocol: how N nodes that may forget hand out a token that never goes backwards.
//!
//! No async, no IO, no clock of its own: state machines that are fed replies and a
//! `now`, and say what to send next. [`Store`] is what a node answers.

use std::time::Duration;

mod acquire;
mod acquire_all;
mod fault;
mod fleet;
mod held_all;
mod holders;
mod id;
mod message;
mod mode;
mod moment;
mod place;
mod readmit;
mod readmit_error;
mod release;
mod relocate;
mod renew;
mod round;
mod stamp;
mod start;
mod store;
mod terms;

pub(crate) use acquire::fault_of;
pub use acquire::{Acquire, AcquireOutcome};
pub use acquire_all::{AcquireAll, AcquireAllOutcome};
pub use fault::Fault;
pub use fleet::{Fleet, FleetError};
pub use held_all::{ReleaseAll, RenewAll};
pub use id::{ClientId, Incarnation, Membership, Nonce, Owner};
pub use message::{Prepared, Reply, Report, Request, Sealing, State};
pub use mode::Mode;
pub use moment::Moment;
pub use readmit::{Readmission, Readmit};
pub use readmit_error::ReadmitError;
pub use release::{Release, ReleaseOutcome};
pub use relocate::{Move, MoveError, Relocation, Side};
pub use renew::{Renew, RenewOutcome};
pub use stamp::Stamp;
pub use store::{CROWDED, Store};
pub use terms::{Attempt, Terms};

#[cfg(test)]
mod found;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

/// 2026-01-01T00:00:00Z in seconds since the Unix epoch: eras count from here.
pub(crate) const EPOCH: Duration = Duration::from_secs(1_767_225_600);

/// Returns how many of `nodes` are a majority. It is counted over all nodes, never over those
/// that answered.
#[must_use]
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}
