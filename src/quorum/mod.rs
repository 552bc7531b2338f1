//! The law: how N nodes that may forget hand out a token that never goes backwards.
//!
//! No async, no IO, no clock of its own: state machines that are fed replies and a
//! `now`, and say what to send next. [`Store`] is what a node answers.

mod acquire;
mod fault;
mod id;
mod message;
mod readmit;
mod release;
mod renew;
mod stamp;
mod store;

pub use acquire::{Acquire, Bid, Outcome};
pub use fault::Fault;
pub use id::{Incarnation, Nonce, Owner};
pub use message::{Prepared, Reply, Request, State};
pub use readmit::{Readmission, Readmit, ReadmitError};
pub use release::{Freed, Release};
pub use renew::{Holding, Renew, Renewal};
pub use stamp::Stamp;
pub use store::Store;

#[cfg(test)]
mod found;
#[cfg(test)]
mod tests;

/// How many of `nodes` are a majority. It is counted over all nodes, never over those
/// that answered.
#[must_use]
pub const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}
