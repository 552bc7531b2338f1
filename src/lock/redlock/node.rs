use futures_util::future::BoxFuture;

use crate::protocol::{Fault, Fleet, Incarnation, Reply, Request};

/// One independent master: where a session is opened.
pub trait Node: Send + Sync + 'static {
    /// Its name for an operator; without password.
    fn name(&self) -> &str;

    /// Its name in its fleet: every client must call the node by the same one. By default that
    /// is [`name`](Node::name).
    fn member(&self) -> &str {
        self.name()
    }

    /// Opens a session with the server as it runs now, one incarnation, for a client of `fleet`.
    ///
    /// # Errors
    /// Why there is none.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing behind.
    fn open(&self, fleet: &Fleet) -> BoxFuture<'static, Result<Box<dyn Session>, Fault>>;
}

/// One connection to one incarnation of a node. It never reconnects underneath: when it
/// breaks, every call fails, and a new one is opened.
pub trait Session: Send + Sync + 'static {
    /// Runs one request as one atomic step.
    ///
    /// Requests run in the order in which the futures are first polled.
    ///
    /// # Errors
    /// [`Fault::Disconnected`] when the session is of no more use. After any error the
    /// request may still have run.
    ///
    /// # Cancel safety
    /// Dropped, the request may have run or may still run; it is not sent later.
    fn call(&self, request: Request) -> BoxFuture<'static, Result<Reply, Fault>>;

    /// Whom it speaks to, where that tells distinct_servers apart: one that is reached under two names
    /// is given one vote. `None` leaves that unlooked at; whatever wraps a session hands its
    /// answer on.
    fn server(&self) -> Option<&Incarnation> {
        None
    }
}
