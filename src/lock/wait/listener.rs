use std::time::Duration;

use fencing_protocol::{Fault, Resource};
use futures_util::future::BoxFuture;

/// The channel on which a server tells of releases. Everything that it tells is a hint: no rule depends
/// on it. When the channel breaks, every call fails, and the caller opens a new one.
pub trait ReleaseListener: Send + 'static {
    /// Makes the server note that this client waits for the resource, and for how long it has waited.
    /// When the lock is released, the server tells the client that has waited longest, and sends its
    /// ticket back. Returns `true` if the lock is free there now and nobody else was told so: then the
    /// server notes nothing.
    ///
    /// # Errors
    /// [`Fault`]: why the server has not noted it.
    ///
    /// # Cancel safety
    /// If you drop the future, the server may have noted the wait or not.
    fn wait(
        &mut self,
        resource: &Resource,
        ticket: u64,
        waited: Duration,
    ) -> BoxFuture<'static, Result<bool, Fault>>;

    /// Makes the server forget that this client waits. If this client was told of a release, and the
    /// lock is still free, the server tells the next one.
    ///
    /// # Errors
    /// [`Fault`]: why the server may still have the note.
    ///
    /// # Cancel safety
    /// If you drop the future, the server may have forgotten the wait or not.
    fn leave(&mut self, resource: &Resource, ticket: u64) -> BoxFuture<'static, Result<(), Fault>>;

    /// Reports whether a wait stays noted after the client was told of a release. By default it
    /// does not.
    fn keeps(&self) -> bool {
        false
    }

    /// Waits for the next release that the server tells of, and returns the resource and the ticket.
    ///
    /// # Errors
    /// [`Fault`]: why the server tells nothing any more.
    ///
    /// # Cancel safety
    /// If you drop the future, it loses nothing.
    fn notified(&mut self) -> BoxFuture<'_, Result<(Resource, u64), Fault>>;
}
