use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::Fault;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, timeout_at};

use super::{Engine, EngineSession};
use crate::lock::settings::Settings;

/// Time after the start of a failed attempt to open a session during which every caller gets its error.
const PAUSE: Duration = Duration::from_secs(1);

/// Leases on an engine: the sessions of one lock service, one for each runtime, TTL and lock-delay. A task opens a
/// session when needed: no caller leaves one half open, and callers share the wait, so servers that are down or hang do
/// not cost each its budget.
#[derive(derive_more::Debug)]
#[debug("{engine:?}")]
pub struct Sessions<E: Engine> {
    pub(in crate::lock) engine: Arc<E>,
    slots: Mutex<HashMap<SlotKey, Slot<E::Session>>>,
}

/// The runtime, the TTL and the lock-delay.
type SlotKey = (Id, Duration, Duration);

type OpeningSession<S> = Shared<BoxFuture<'static, Result<Arc<S>, Fault>>>;

/// A session that is open, or is being opened.
struct Slot<S> {
    opening: OpeningSession<S>,
    /// Since when nothing has been heard of the servers.
    since: Instant,
    /// Until when it stays open if no lease uses it.
    kept: Instant,
}

impl<E: Engine> Sessions<E> {
    pub(super) fn new(engine: E) -> Sessions<E> {
        Sessions { engine: Arc::new(engine), slots: Mutex::default() }
    }

    /// Returns the session of this runtime for locks with these settings. It replaces one that has ended.
    pub(in crate::lock) async fn get(&self, settings: &Settings) -> Result<Arc<E::Session>, Fault> {
        let (opening, since) = self.opening(settings)?;
        let end = since + settings.budget() * E::OPENING_BUDGETS;
        let session = timeout_at(end, opening).await.unwrap_or(Err(Fault::TimedOut))?;
        if session.is_late() { Err(Fault::TimedOut) } else { Ok(session) }
    }

    fn opening(&self, settings: &Settings) -> Result<(OpeningSession<E::Session>, Instant), Fault> {
        let runtime = Handle::try_current().map_err(|_| Fault::NoRuntime)?;
        let (terms, now, mut slots) = (settings.terms(), Instant::now(), self.slots.lock());
        let key = (runtime.id(), terms.ttl, terms.lock_delay);
        // It outlasts its use.
        let kept = now + terms.closed_for();
        let mut since = now;
        if let Some(slot) = slots.get_mut(&key) {
            slot.kept = kept;
            match slot.opening.peek() {
                // The next attempt goes on in the background.
                Some(Err(Fault::TimedOut)) => since = slot.since,
                Some(Err(_)) if slot.since + PAUSE <= now => {}
                Some(Ok(session)) if session.has_ended() => {}
                _ => return Ok((slot.opening.clone(), slot.since)),
            }
        }
        slots.retain(|_, slot| match slot.opening.peek() {
            Some(Ok(session)) if session.has_ended() => false,
            Some(Ok(session)) if Arc::strong_count(session) > 1 => true,
            _ => slot.kept > now,
        });
        let opened = runtime.spawn(Arc::clone(&self.engine).start(settings.clone()));
        let opening = async { opened.await.unwrap_or_else(|_| Err(Fault::Disconnected("the runtime is gone".into()))) };
        let opening = opening.boxed().shared();
        slots.insert(key, Slot { opening: opening.clone(), since, kept });
        Ok((opening, since))
    }
}
