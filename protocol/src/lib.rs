//! The protocol: how N nodes that may forget hand out a token that never goes backwards.
//!
//! No async, no IO, no clock of its own: state machines that are fed replies and a
//! `now`, and say what to send next. [`Store`] is what a node answers. Its words ([`Token`], [`Resource`], [`Time`]) are
//! those of the crate `fencing`, which drives it; nothing here is stable but what that crate exports.

#![forbid(unsafe_code)]

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
pub mod resource;
mod round;
#[cfg(feature = "sqlx")]
mod sqlx;
mod stamp;
mod start;
mod state;
mod store;
mod terms;
mod time;
pub mod token;

pub use acquire::{Acquire, AcquireOutcome, fault_of};
pub use acquire_all::{AcquireAll, Lost, Won};
pub use fault::Fault;
pub use fleet::{Fleet, FleetError};
pub use held_all::{ReleaseAll, RenewAll};
pub use id::{ClientId, Incarnation, Membership, Nonce, Owner};
pub use message::{Reply, Request, Sealing};
pub use mode::Mode;
pub use moment::Moment;
pub use nonempty::NonEmpty;
pub use readmit::{Readmission, Readmit};
pub use readmit_error::ReadmitError;
pub use release::{Release, ReleaseOutcome};
pub use relocate::{Move, MoveError, Relocation, Side};
pub use renew::{Renew, RenewOutcome};
pub use resource::{Resource, ResourceError};
pub use stamp::Stamp;
pub use state::{Prepared, Report, State};
pub use store::{CROWDED, Store};
pub use terms::{Attempt, Terms};
pub use time::Time;
pub use token::{Token, TokenError};

#[cfg(test)]
mod found;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

/// 2026-01-01T00:00:00Z in seconds since the Unix epoch: eras count from here.
pub const EPOCH: Duration = Duration::from_secs(1_767_225_600);

/// Returns how many of `nodes` are a majority. It is counted over all nodes, never over those
/// that answered.
#[must_use]
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}
