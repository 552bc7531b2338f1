//! The protocol: how N nodes that may forget hand out a token that never goes backwards.
//!
//! No async, no IO, no clock of its own: state machines that are fed replies and a `now`, and say what to send next.
//! [`Store`] is what a node answers. Its words ([`Token`], [`Resource`], [`Time`]) are those of the crate `fencing`,
//! which drives it. Only what that crate exports is stable.

#![forbid(unsafe_code)]

use std::time::Duration;

mod acquire;
mod fault;
mod fleet;
mod held;
mod holders;
mod id;
mod machine;
mod message;
mod readmit;
mod relocate;
pub mod resource;
mod round;
#[cfg(feature = "sqlx")]
mod sqlx;
mod stamp;
mod start;
mod store;
mod time;
pub mod token;

pub use acquire::{Acquire, Attempt, Lost, Terms, Won};
pub use fault::Fault;
pub use fleet::{Fleet, FleetError};
pub use held::{AskAll, Release, Released, Renew, Renewed};
pub use id::{ClientId, Incarnation, Membership, Nonce, Owner};
pub use machine::{Address, Machine, Side};
pub use message::{Mode, NodeState, Prepared, Reply, Request, Sealing, fault_of};
pub use nonempty::NonEmpty;
pub use readmit::Readmit;
pub use relocate::{Relocate, RelocateError, Relocation};
pub use resource::{Resource, ResourceError};
pub use round::{ReadmitError, Readmitted, StartOrder};
pub use stamp::Stamp;
pub use store::{CROWDED, Clocks, Store};
pub use time::{Time, about};
pub use token::{Token, TokenError};

/// 2026-01-01T00:00:00Z in seconds since the Unix epoch: eras count from here.
pub const EPOCH: Duration = Duration::from_secs(1_767_225_600);

/// Returns how many of `nodes` are a majority: of all nodes, never of those that answered.
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}
