use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Mutex as FairMutex, Notify};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::AcquireError;
use super::groups::Groups;
use super::settings::Settings;
use crate::random::jitter;
use crate::resource::Resource;

/// For how many retry delays leases of one process may follow one another before others get a pause.
const LONGEST_STREAK: u32 = 10;

/// The local queues. Within a process one contender per resource asks the servers, and the
/// others wait behind it in the order in which they came. A lease that this process releases wakes the
/// first of them, who asks at once.
#[derive(Default)]
pub(super) struct Queues(Mutex<HashMap<Resource, Weak<Queue>>>, Groups);

/// The queue of one resource.
#[derive(Default)]
struct Queue {
    turn: FairMutex<()>,
    state: Mutex<State>,
    /// Wakes the contender: a lease of this process was released.
    released: Notify,
}

#[derive(Default)]
struct State {
    /// The last error that the contender got, and when the next may ask.
    last_error: Option<(AcquireError, Instant)>,
    /// Whether a lease that came through this queue is held.
    held: bool,
    /// Since when leases of this process have followed one another.
    streak: Option<Instant>,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_error(&self) -> Option<(AcquireError, Instant)> {
        self.state().last_error.clone()
    }

    /// Notes that the contender got the lease.
    fn on_acquired(&self) {
        let mut state = self.state();
        (state.last_error, state.held) = (None, true);
        state.streak.get_or_insert_with(Instant::now);
    }

    /// Notes that the contender did not get it, and when the next may ask.
    fn on_error(&self, error: &AcquireError, next: Instant, woken: bool) {
        let mut state = self.state();
        (state.last_error, state.held) = (Some((error.clone(), next)), false);
        if woken {
            // Somebody else was there first.
            state.streak = None;
        }
    }

    /// Waits until `next`, or until a lease of this process is released, and returns whether it was.
    async fn wait(&self, next: Instant) -> bool {
        timeout_at(next, self.released.notified()).await.is_ok()
    }

    /// Leases of one process follow one another for a time only: then others, who ask now and again,
    /// get a pause in which to ask.
    async fn give_way(&self, end: Instant, settings: &Settings) {
        let most = settings.retry_delay.saturating_mul(LONGEST_STREAK);
        let over = self.state().streak.is_some_and(|since| since.elapsed() > most);
        if over {
            self.state().streak = None;
            sleep_until(end.min(Instant::now() + pause(settings))).await;
        }
    }
}

/// Returns how long a contender waits before it asks again.
fn pause(settings: &Settings) -> Duration {
    settings.retry_delay / 2 + jitter(settings.retry_delay)
}

impl Queues {
    /// Makes attempts until one succeeds or the wait limit is reached, in the order of the queue.
    pub(super) async fn acquire<F, L>(
        &self,
        resource: &Resource,
        settings: &Settings,
        attempt: impl Fn() -> F,
    ) -> Result<L, AcquireError>
    where
        F: Future<Output = Result<L, AcquireError>>,
    {
        let end = Instant::now() + settings.wait;
        let queue = self.of(resource);
        let _turn = match queue.turn.try_lock() {
            Ok(turn) => turn,
            // All who wait here get the contender's error: they must not ask all at once, nor
            // one after another when the contender gives up.
            Err(_) => match (timeout_at(end, queue.turn.lock()).await, queue.last_error()) {
                (Err(_), None) => return attempt().await,
                (Err(_), Some((error, _))) => return Err(error),
                (Ok(_), Some((error, next))) if next >= end => return Err(error),
                (Ok(turn), Some((_, next))) => {
                    sleep_until(next).await;
                    turn
                }
                (Ok(turn), None) => turn,
            },
        };
        let mut woken = false;
        if queue.state().held {
            woken = queue.wait(end.min(Instant::now() + pause(settings))).await;
        }
        loop {
            queue.give_way(end, settings).await;
            let error = match attempt().await {
                Ok(lease) => {
                    queue.on_acquired();
                    return Ok(lease);
                }
                Err(error) => error,
            };
            let next = Instant::now() + pause(settings);
            queue.on_error(&error, next, woken);
            if next >= end {
                return Err(error);
            }
            woken = queue.wait(next).await;
        }
    }

    /// Wakes the one who is first in the queue of a resource: a lease was released.
    pub(super) fn wake(&self, resource: &Resource) {
        self.1.wake(resource);
        let queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(resource).and_then(Weak::upgrade) {
            drop(queues);
            queue.state().held = false;
            queue.released.notify_one();
        }
    }

    /// Returns the queues of those who wait for several resources.
    pub(super) fn groups(&self) -> &Groups {
        &self.1
    }

    /// Returns the queue of a resource. It is forgotten when it is empty.
    fn of(&self, resource: &Resource) -> Arc<Queue> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(resource).and_then(Weak::upgrade) {
            return queue;
        }
        if queues.len() >= 64 && queues.len().is_power_of_two() {
            queues.retain(|_, queue| queue.strong_count() > 0);
        }
        let queue = Arc::<Queue>::default();
        queues.insert(resource.clone(), Arc::downgrade(&queue));
        queue
    }
}
