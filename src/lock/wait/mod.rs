//! Waiting for a lease. Within a process one caller per resource asks the servers, and the others wait behind it, in
//! order. What the servers tell of releases wakes it before its next poll.

mod acquirer;
pub(crate) mod backoff;
pub(crate) mod groups;
mod listener;
pub(crate) mod listening;
pub(crate) mod notifications;
mod queue;
pub(crate) mod queues;

pub use listener::ReleaseListener;
