//! Waiting for a lease.
//!
//! Within a process the callers for a resource form a [`queue`], whose head is the [`acquirer`]: it asks the
//! servers, and [backs off](backoff). Before its pause ends, one of three events wakes it: a lease of this process
//! was released, such a lease was handed over (no other client knows), or servers have
//! [notified](release_notifications) this client of a release by another process.

pub(crate) mod acquirer;
pub(crate) mod backoff;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(crate) mod line;
pub(crate) mod list;
pub(crate) mod listener;
mod queue;
pub(crate) mod queues;
pub(crate) mod release_notifications;
pub(crate) mod subscriptions;
pub(crate) mod wanted;
