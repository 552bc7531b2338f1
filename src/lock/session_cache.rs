use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::Fault;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// Time after the start of a failed attempt to open a session during which every caller gets its error.
const PAUSE: Duration = Duration::from_secs(1);

/// The sessions of one lock service, one for each runtime and key. A task opens a session when needed: no caller leaves
/// one half open, and callers share the wait, so servers that are down or hang do not cost each its budget.
pub(crate) struct SessionCache<K, S> {
    slots: Mutex<HashMap<(Id, K), Slot<S>>>,
    has_ended: fn(&S) -> bool,
}

type OpeningSession<S> = Shared<BoxFuture<'static, Result<Arc<S>, Fault>>>;

/// A session that is open, or is being opened.
struct Slot<S> {
    opening: OpeningSession<S>,
    /// Since when nothing has been heard of the servers.
    since: Instant,
    /// Until when it stays open if no lease uses it.
    kept: Instant,
}

impl<K: Eq + Hash, S: Send + Sync + 'static> SessionCache<K, S> {
    /// A session may end by itself.
    pub(crate) fn new(has_ended: fn(&S) -> bool) -> SessionCache<K, S> {
        SessionCache { slots: Mutex::default(), has_ended }
    }

    /// Returns the runtime's session of `key` within `limit`; replaces an ended one. It outlasts its use by `lasting`.
    pub(crate) async fn get<F>(
        &self,
        key: K,
        lasting: Duration,
        limit: Duration,
        open: impl FnOnce() -> F,
    ) -> Result<Arc<S>, Fault>
    where
        F: Future<Output = Result<Arc<S>, Fault>> + Send + 'static,
    {
        let runtime = Handle::try_current().map_err(|_| Fault::NoRuntime)?;
        let (opening, since) = self.opening((runtime.id(), key), lasting, || runtime.spawn(open()));
        timeout_at(since + limit, opening).await.unwrap_or(Err(Fault::TimedOut))
    }

    fn opening(
        &self,
        key: (Id, K),
        lasting: Duration,
        open: impl FnOnce() -> JoinHandle<Result<Arc<S>, Fault>>,
    ) -> (OpeningSession<S>, Instant) {
        let (now, mut slots) = (Instant::now(), self.slots.lock());
        let mut since = now;
        if let Some(slot) = slots.get_mut(&key) {
            slot.kept = now + lasting;
            match slot.opening.peek() {
                // The next attempt goes on in the background.
                Some(Err(Fault::TimedOut)) => since = slot.since,
                Some(Err(_)) if slot.since + PAUSE <= now => {}
                Some(Ok(session)) if (self.has_ended)(session) => {}
                _ => return (slot.opening.clone(), slot.since),
            }
        }
        slots.retain(|_, slot| match slot.opening.peek() {
            Some(Ok(session)) if (self.has_ended)(session) => false,
            Some(Ok(session)) if Arc::strong_count(session) > 1 => true,
            _ => slot.kept > now,
        });
        let opened = open();
        let opening = async { opened.await.unwrap_or_else(|_| Err(Fault::Disconnected("the runtime is gone".into()))) };
        let opening = opening.boxed().shared();
        slots.insert(key, Slot { opening: opening.clone(), since, kept: now + lasting });
        (opening, since)
    }
}
