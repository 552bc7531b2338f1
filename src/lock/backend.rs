//! The port behind every lock service.

use std::future::Future;
use std::sync::Arc;

use super::AcquireError;
use super::health::Health;
use super::held_lock::{Grant, GrantAll};
use super::settings::Settings;
use crate::protocol::Fault;
use crate::resource::Resource;
use crate::time::Clock;

/// The port behind every lock service: what makes attempts and reports its health. Redlock's
/// nodes and the table in a database are two back ends; etcd or ZooKeeper would be more.
pub(crate) trait LockBackend: Clone + Send + Sync + 'static {
    /// Returns the clock that leases are timed by in this process.
    fn clock(&self) -> &Arc<dyn Clock>;

    /// Makes one attempt. An attempt that is dropped, or not granted, releases what it got.
    fn attempt(
        &self,
        resource: &Resource,
        settings: &Settings,
    ) -> impl Future<Output = Result<Grant, AcquireError>> + Send;

    /// Makes one attempt to acquire all of these, which are different and at least one. The tokens come
    /// in their order. An attempt that is dropped, or not granted, releases what it got.
    fn attempt_all(
        &self,
        resources: &[Resource],
        settings: &Settings,
    ) -> impl Future<Output = Result<GrantAll, AcquireError>> + Send;

    /// Asks every server how it stands, within the budget.
    fn health(&self, settings: &Settings) -> impl Future<Output = Health> + Send;

    /// Returns the health for the case that every server has this fault.
    fn failing(&self, fault: Fault) -> Health;

    /// Returns the error of an attempt for the case that every server has this fault.
    fn unavailable(&self, resource: &Resource, fault: Fault) -> AcquireError;

    /// Learns that locks with these settings are going to be acquired.
    fn prepare(&self, settings: &Settings);

    /// Waits until all that this client has sent is answered or was given up.
    fn settle(&self) -> impl Future<Output = ()> + Send;
}
