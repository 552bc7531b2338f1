use std::task::{Context, Poll};
use std::time::Duration;

use fencing_protocol::{ClientId, Fault, Fleet, Incarnation, Mode, Reply, Request};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use smallvec::SmallVec;
use tokio::time::timeout;

use crate::lock::wait::release_notifications::ReleaseListener;

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

    /// Returns its name in its fleet: every client must use the same one. By default that is [`name`](Node::name).
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

/// A connection to one incarnation of a node. It never reconnects: once it breaks, calls fail; callers open another.
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

    /// Waits until the session breaks, and returns why. Polled while no call is in flight. By default calls find out.
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

/// The parts of a call: mostly one.
pub type Group<T> = SmallVec<[T; 1]>;

/// The kinds of requests about one exclusive lock that may share a call, in the order in which a node carries them out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupKind {
    Release,
    Acquire,
    Renew,
}

impl GroupKind {
    pub(super) fn of(request: &Request) -> Option<GroupKind> {
        match request {
            Request::Release { .. } => Some(GroupKind::Release),
            Request::Acquire { mode: Mode::Exclusive, .. } => Some(GroupKind::Acquire),
            Request::Renew { mode: Mode::Exclusive, .. } => Some(GroupKind::Renew),
            _ => None,
        }
    }
}

/// Returns the TTL that a renewal asks for: those of one call all ask for the same.
pub(super) fn renewed_for(request: &Request) -> Option<Duration> {
    if let Request::Renew { ttl, .. } = request { Some(*ttl) } else { None }
}
