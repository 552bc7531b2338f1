//! Waiting for a lease.
//!
//! The callers of a process for a resource form a [`queue`], whose head is the [`acquirer`]: it asks the servers, and
//! [backs off](backoff). Three events end its pause early: a lease of this process was released, or handed over (no
//! other client knows), or servers have [notified](release_notifications) this client of a release elsewhere.

pub(crate) mod acquirer;
pub(crate) mod backoff;
mod queue;
pub(crate) mod queues;
pub(crate) mod release_notifications;
pub(crate) mod subscriptions;
pub(crate) mod wanted;
