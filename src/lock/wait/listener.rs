use std::time::Duration;

use fencing_protocol::{Fault, Resource};
use futures_util::future::BoxFuture;

/// The channel on which a server notifies this client of releases. No rule depends on a notification: a lost,
/// late, repeated or forged one costs the pause of a poll. When the channel breaks, [`next`](ReleaseListener::next)
/// fails, and the caller opens a new one.
pub trait ReleaseListener: Send + 'static {
    /// Registers this client as waiting for the resource, and for how long it has waited. When the lock
    /// is released, the server notifies the client that has waited longest, with the client's ticket, and
    /// removes the registration. If the lock is free there now and no other client was notified, the server registers
    /// nothing. Its answer is the [`Notice::Registered`] of this ticket.
    fn wait(&mut self, resource: &Resource, ticket: u64, waited: Duration);

    /// Removes the registration. If this client was notified of a release, and the lock is still free,
    /// the server notifies the next client. Its answer is a [`Notice::Left`].
    fn leave(&mut self, resource: &Resource, ticket: u64);

    /// Moves what was asked, and waits for the next notice. If you drop the future, it loses nothing.
    fn next(&mut self) -> BoxFuture<'_, Result<Notice, Fault>>;
}

/// A message of a server to a waiting client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Notice {
    /// The lock was released. The client had this ticket.
    Released(Resource, u64),
    /// The client is registered with this ticket, unless the lock is free: whether it is.
    Registered(Resource, u64, bool),
    /// A registration was removed.
    Left,
}
