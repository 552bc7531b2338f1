use std::task::{Context, Poll};
use std::time::Duration;

use fencing_protocol::{ClientId, Fault, Fleet, Incarnation, Reply, Request};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use tokio::time::timeout;

use super::group::Group;
use crate::lock::wait::listener::ReleaseListener;

/// Waits for an answer of a node, but not for longer than `limit` from now.
pub(super) fn within<T>(
    limit: Duration,
    asked: impl Future<Output = Result<T, Fault>>,
) -> impl Future<Output = Result<T, Fault>> {
    timeout(limit, asked).map(|answer| answer.unwrap_or(Err(Fault::TimedOut)))
}

/// One independent lock server.
///
/// The messages of a [`Session`] are the protocol's, which is not public API: the nodes are those
/// of this crate, [`MemoryNode`](super::MemoryNode) and `RedisNode`.
#[auto_impl::auto_impl(Arc)]
pub trait Node: Send + Sync + 'static {
    /// Returns its name for an operator, without password.
    fn name(&self) -> &str;

    /// Returns its name in its fleet: every client must use the same one. By default that is
    /// [`name`](Node::name).
    fn member(&self) -> &str {
        self.name()
    }

    /// Opens a session with the server as it runs now, one incarnation, for a client of `fleet`. The node notes
    /// `holder`, the client's name, with the locks that it holds. If you drop the future, it leaves nothing behind.
    fn open(&self, fleet: &Fleet, holder: &str) -> BoxFuture<'static, Result<Box<dyn Session>, Fault>>;

    /// Opens the channel on which the node notifies this client that a lock for which it waits was released. By
    /// default a node sends no notifications, and clients poll. If you drop the future, it leaves nothing behind.
    fn listen(&self, client: ClientId) -> BoxFuture<'static, Result<Box<dyn ReleaseListener>, Fault>> {
        let _ = client;
        ready(Err(Fault::Refused("it sends no notifications of releases".into()))).boxed()
    }
}

/// One connection to one incarnation of a node. It never reconnects: when it breaks, every call
/// fails, and the caller opens a new one.
pub trait Session: Send + Sync + 'static {
    /// Runs one request, or several about different locks, each as one atomic step, and returns the answer to each. A
    /// server may run several as one, in any order that keeps releases before the others. Calls run, and are answered,
    /// in the order in which the futures are first polled.
    ///
    /// After any error the request may still have run; after [`Fault::Disconnected`] the session is broken. If you
    /// drop the future, the requests may have run or may still run; they are not sent later.
    fn call(&self, requests: Group<Request>) -> BoxFuture<'static, Group<Result<Reply, Fault>>>;

    /// Finds out whether the server still answers on this session. The caller asks this before it uses
    /// an idle session again. After an error it is broken.
    fn check(&self) -> BoxFuture<'static, Result<(), Fault>> {
        Box::pin(ready(Ok(())))
    }

    /// Waits until the session is broken, and returns why. It is polled while no call is in flight. By default only a
    /// call finds that out.
    fn poll_closed(&self, context: &mut Context<'_>) -> Poll<Fault> {
        let _ = context;
        Poll::Pending
    }

    /// Reports whether any task of its runtime may begin calls, and not only the one that owns it: then an attempt need
    /// not wait for that task. By default none may.
    fn is_open_to_callers(&self) -> bool {
        false
    }

    /// Returns the server's identity, so that a server with two names gets one vote. `None`
    /// skips that check. A session that wraps another returns the other's answer.
    fn server(&self) -> Option<&Incarnation> {
        None
    }
}
