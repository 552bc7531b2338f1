use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::protocol::Fault;
use crate::resource::Resource;

/// The way on which a server tells of releases. All of it is a hint: no rule rests on it. When it breaks,
/// every call fails, and the caller opens a new one.
pub trait Ear: Send + 'static {
    /// Has the server note that this client waits for the resource, and has done so for that long. Of
    /// those who wait it tells the one who has waited longest. The ticket comes back with
    /// what is told. Returns whether the lock is free there now, and nobody else was told of that: then
    /// nothing is noted.
    ///
    /// # Errors
    /// [`Fault`]: why it is not noted.
    ///
    /// # Cancel safety
    /// Dropped, it may be noted or not.
    fn wait(
        &mut self,
        resource: &Resource,
        ticket: u64,
        waited: Duration,
    ) -> BoxFuture<'static, Result<bool, Fault>>;

    /// Has the server forget that. If this client was told, and the lock is still free, it tells the
    /// next one.
    ///
    /// # Errors
    /// [`Fault`]: why it may still be noted.
    ///
    /// # Cancel safety
    /// Dropped, it may be forgotten or not.
    fn leave(&mut self, resource: &Resource, ticket: u64) -> BoxFuture<'static, Result<(), Fault>>;

    /// Reports whether a wait stays noted when it was told. By default it does not.
    fn keeps(&self) -> bool {
        false
    }

    /// Waits for the next release that the server tells of, and returns the resource and the ticket.
    ///
    /// # Errors
    /// [`Fault`]: nothing is told any more.
    ///
    /// # Cancel safety
    /// Dropped, it loses nothing.
    fn told(&mut self) -> BoxFuture<'_, Result<(Resource, u64), Fault>>;
}
