use std::time::Duration;

use fencing_protocol::Mode;
use parking_lot::Mutex;
use tokio::sync::{Mutex as FairMutex, MutexGuard as FairGuard, Notify};
use tokio::time::{Instant, timeout_at};

use super::backoff::pause;
use super::wanted::Wanted;
use crate::lock::error::AcquireError;

/// Limits, in time and leases, of local hand-over while others are known to wait: the release after that notifies one.
const HAND_OVER_LIMIT: Duration = Duration::from_millis(20);
const MAX_HAND_OVERS: u32 = 16;
/// Limit, in retry delays, of consecutive leases of one process while no other client is known to wait. Then clients
/// that only poll get a pause in which to ask.
const MAX_RETRY_DELAYS: u32 = 10;

/// Time for which a queue without callers is kept after its last release.
const RECENT: Duration = Duration::from_secs(1);

/// The callers of this process that wait for the same, in order. The first is the acquirer: it asks the servers.
#[derive(Default)]
pub(crate) struct WaitQueue {
    head: FairMutex<()>,
    state: Mutex<QueueState>,
    /// Wakes the acquirer: a lease of this process was released.
    pub(crate) released: Notify,
}

#[derive(Default)]
struct QueueState {
    /// The time when the acquirer began to wait, if there is one.
    acquirer_since: Option<Instant>,
    /// The last error of an acquirer, and when the next may ask.
    last_error: Option<(AcquireError, Instant)>,
    /// Callers for an exclusive lease, the acquirer included.
    waiters: usize,
    /// The last exclusive lease that came through the queue, as far as it is known.
    last_lease: Option<LastLease>,
    streak: Option<Streak>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LastLease {
    Held,
    Released {
        at: Instant,
        /// Whether no other client was notified of that: then the next caller asks at once.
        handed_over: bool,
    },
}

impl QueueState {
    fn was_released_within(&self, time: Duration) -> bool {
        matches!(self.last_lease, Some(LastLease::Released { at, .. }) if at.elapsed() <= time)
    }

    fn take_hand_over(&mut self) -> bool {
        let Some(LastLease::Released { handed_over, .. }) = &mut self.last_lease else { return false };
        std::mem::take(handed_over)
    }
}

/// Leases of this process that follow one another.
#[derive(Clone, Copy)]
struct Streak {
    since: Instant,
    leases: u32,
    /// Whether clients in other processes are known to wait.
    contested: bool,
}

impl Streak {
    fn is_over(&self, retry_delay: Duration) -> bool {
        let elapsed = self.since.elapsed();
        if self.contested {
            elapsed >= HAND_OVER_LIMIT || self.leases >= MAX_HAND_OVERS
        } else {
            elapsed > retry_delay.saturating_mul(MAX_RETRY_DELAYS)
        }
    }
}

/// The place of a caller in the queue, until this is dropped.
pub(crate) struct Place<'a> {
    /// The time after which the acquirer asks, if it must not ask at once.
    pub(crate) asks_after: Option<Instant>,
    queue: &'a WaitQueue,
    exclusive: bool,
    /// The lock of the queue's head, if this caller has it.
    first: Option<FairGuard<'a, ()>>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.waiters = state.waiters.saturating_sub(usize::from(self.exclusive));
        if self.first.is_some() {
            state.acquirer_since = None;
        }
    }
}

impl WaitQueue {
    /// Waits for the first place. `None` if the wait has ended before an acquirer had an answer. When the acquirer
    /// gives up, the callers behind it fail with its last error, and do not ask the servers one after another.
    pub(crate) async fn place(&self, wanted: &Wanted<'_>) -> Result<Option<Place<'_>>, AcquireError> {
        let (end, exclusive) = (wanted.ask.end, wanted.ask.mode == Mode::Exclusive);
        // A caller for a shared lease has asked already, or lets another process be first.
        let asks_after = (!exclusive).then(|| Instant::now() + pause(wanted.settings));
        let mut place = Place { asks_after, queue: self, exclusive, first: None };
        self.state.lock().waiters += usize::from(exclusive);
        match self.head.try_lock() {
            Ok(head) => {
                // The first caller has come after all others have left.
                let mut state = self.state.lock();
                state.last_error = None;
                if !wanted.has_unknown_waiters() {
                    state.last_lease.take_if(|last| *last == LastLease::Held);
                    state.streak = None;
                }
                place.first = Some(head);
            }
            Err(_) => {
                let head = timeout_at(end, self.head.lock()).await;
                let state = self.state.lock();
                let handed_over = matches!(state.last_lease, Some(LastLease::Released { handed_over: true, .. }));
                match (head, state.last_error.clone()) {
                    (Err(_), None) => return Ok(None),
                    (Err(_), Some((error, _))) => return Err(error),
                    (Ok(_), Some((error, next))) if next >= end && !handed_over => return Err(error),
                    (Ok(head), last_error) => {
                        place.first = Some(head);
                        place.asks_after = last_error.map(|(_, next)| next);
                    }
                }
            }
        }
        self.state.lock().acquirer_since = Some(wanted.since);
        Ok(Some(place))
    }

    pub(crate) fn acquirer_since(&self) -> Option<Instant> {
        self.state.lock().acquirer_since
    }

    pub(crate) fn is_held(&self) -> bool {
        self.state.lock().last_lease == Some(LastLease::Held)
    }

    pub(crate) fn hands_over(&self) -> bool {
        let state = self.state.lock();
        let goes_on = |streak: Streak| streak.contested && !streak.is_over(Duration::ZERO);
        state.last_lease == Some(LastLease::Held) && state.waiters > 0 && state.streak.is_some_and(goes_on)
    }

    /// Takes what the last release handed over, if it did.
    pub(crate) fn take_hand_over(&self) -> bool {
        self.state.lock().take_hand_over()
    }

    /// Notes that the acquirer got a lease, which was `handed_over` or not.
    pub(crate) fn on_acquired(&self, wanted: &Wanted<'_>, handed_over: bool) {
        let (mut state, contested) = (self.state.lock(), wanted.has_remote_waiters());
        state.last_error = None;
        if !wanted.blocks_all() {
            state.last_lease.take_if(|last| *last == LastLease::Held);
            state.take_hand_over();
            return;
        }
        let soon = state.was_released_within(wanted.settings.retry_delay);
        let last = state.streak.filter(|_| handed_over || (soon && !contested));
        let (since, leases) = last.map_or((Instant::now(), 0), |last| (last.since, last.leases));
        state.streak = Some(Streak { since, leases: leases.saturating_add(1), contested });
        state.last_lease = Some(LastLease::Held);
    }

    /// Notes that an acquirer got an error, and when the next may ask.
    pub(crate) fn on_error(&self, error: &AcquireError, next: Instant) {
        let mut state = self.state.lock();
        state.last_error = Some((error.clone(), next));
        state.last_lease.take_if(|last| *last == LastLease::Held);
    }

    /// Notes that a lease of this process was released, and wakes the acquirer.
    pub(crate) fn on_released(&self, handed_over: bool) {
        self.state.lock().last_lease = Some(LastLease::Released { at: Instant::now(), handed_over });
        self.released.notify_one();
    }

    /// Ends a streak that has reached its bound, and reports whether it has to let others ask. Where others are
    /// notified, or have had the time to ask, it need not.
    pub(crate) fn ends_streak(&self, wanted: &Wanted<'_>) -> bool {
        let (mut state, retry_delay) = (self.state.lock(), wanted.settings.retry_delay);
        // A pause before the release would let nobody in.
        if wanted.has_unknown_waiters() && !matches!(state.last_lease, Some(LastLease::Released { .. })) {
            return false;
        }
        let over = |streak: &Streak| !streak.contested && streak.is_over(retry_delay);
        state.streak.take_if(|streak| over(streak)).is_some() && state.was_released_within(retry_delay)
    }

    /// Another client was first.
    pub(crate) fn break_streak(&self) {
        self.state.lock().streak = None;
    }

    /// Reports whether there is something to remember when no caller is left.
    pub(crate) fn is_recent(&self) -> bool {
        let state = self.state.lock();
        state.last_lease == Some(LastLease::Held) || state.was_released_within(RECENT)
    }
}
