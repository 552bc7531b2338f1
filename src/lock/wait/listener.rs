use std::time::Duration;

use fencing_protocol::{Fault, Resource};
use futures_util::future::BoxFuture;

/// The channel on which a server notifies this client of releases. No rule depends on a notification: a lost,
/// late, repeated or forged one costs the pause of a poll. When the channel breaks, every call fails, and the
/// caller opens a new one.
pub trait ReleaseListener: Send + 'static {
    /// Registers this client as waiting for the resource, and for how long it has waited. When the lock
    /// is released, the server notifies the client that has waited longest, with the client's ticket, and
    /// removes the registration. Returns `true` if the lock is free there now and no other client was
    /// notified: then the server registers nothing.
    /// If you drop the future, the wait may be registered or not.
    fn wait(
        &mut self,
        resource: &Resource,
        ticket: u64,
        waited: Duration,
    ) -> BoxFuture<'static, Result<bool, Fault>>;

    /// Removes the registration. If this client was notified of a release, and the lock is still free,
    /// the server notifies the next client. After an error, or if you drop the future, the wait may still be
    /// registered.
    fn leave(&mut self, resource: &Resource, ticket: u64) -> BoxFuture<'static, Result<(), Fault>>;

    /// Waits for the next notification, and returns its resource and ticket. If you drop the future, it loses
    /// nothing.
    fn notified(&mut self) -> BoxFuture<'_, Result<(Resource, u64), Fault>>;
}
