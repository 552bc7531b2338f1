use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencing_protocol::Mode;
use tokio::sync::{Mutex as FairMutex, Notify};
use tokio::time::Instant;

use crate::lock::AcquireError;

/// For how long, and for how many leases, a process hands the lock on within itself while others wait
/// elsewhere.
const HAND_OVER_LIMIT: Duration = Duration::from_millis(20);
const MAX_HAND_OVERS: u32 = 16;

/// The queue of one resource in this process.
#[derive(Default)]
pub(crate) struct WaitQueue {
    /// The contender holds it: the one who asks the servers.
    pub(crate) turn: FairMutex<()>,
    state: Mutex<State>,
    /// Wakes the contender: a lease of this process was released.
    pub(crate) released: Notify,
}

#[derive(Default)]
struct State {
    /// The last error that the contender got, and when the next may ask.
    last_error: Option<(AcquireError, Instant)>,
    /// Whether a lease that came through this queue is held.
    held: bool,
    /// Since when leases of this process have followed one another.
    streak: Option<Instant>,
    /// When the last of them was released.
    released: Option<Instant>,
    /// How many callers want to hold it alone, the contender included.
    callers: usize,
    /// Since when the process has its turn, and how many leases it had in it. Unset if nobody waits elsewhere.
    turn: Option<(Instant, u32)>,
    /// The last release told nobody elsewhere: the next caller asks at once.
    handed_over: bool,
}

/// One who wants to hold it alone, until this is dropped.
pub(crate) struct WaiterGuard<'a>(&'a WaitQueue);

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.callers = state.callers.saturating_sub(1);
    }
}

impl WaitQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn last_error(&self) -> Option<(AcquireError, Instant)> {
        self.state().last_error.clone()
    }

    pub(crate) fn is_held(&self) -> bool {
        self.state().held
    }

    /// Counts one who wants to hold it alone.
    pub(crate) fn enter(&self) -> WaiterGuard<'_> {
        let mut state = self.state();
        state.callers = state.callers.saturating_add(1);
        drop(state);
        WaiterGuard(self)
    }

    /// Reports whether the lease that is about to be released is to go to the next caller of this process,
    /// and nobody elsewhere is to be told: the process has its turn, and somebody is there to take it.
    pub(crate) fn hands_over(&self) -> bool {
        let state = self.state();
        let in_turn = state.turn.is_some_and(|(since, leases)| {
            since.elapsed() < HAND_OVER_LIMIT && leases < MAX_HAND_OVERS
        });
        in_turn && state.held && state.callers > 0
    }

    /// Reports whether the last release left the lock to the next caller of this process.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.state().handed_over
    }

    /// Takes what the last release left to the next caller of this process, if it did.
    pub(crate) fn take_hand_over(&self) -> bool {
        std::mem::take(&mut self.state().handed_over)
    }

    /// Notes that the contender's lease begins the process's turn, or goes on with it.
    pub(crate) fn on_hand_over(&self, handed_over: bool, has_remote_waiters: bool) {
        let mut state = self.state();
        let turn = state.turn.filter(|_| handed_over);
        let (since, leases) = turn.unwrap_or_else(|| (Instant::now(), 0));
        state.turn = has_remote_waiters.then_some((since, leases.saturating_add(1)));
        state.handed_over = false;
    }

    /// Notes that the contender got the lease. It follows the last one of this process if that was
    /// released a `moment` ago at most. One that is shared keeps nobody here from asking.
    pub(crate) fn on_acquired(&self, mode: Mode, moment: Duration) {
        let mut state = self.state();
        (state.last_error, state.held) = (None, mode == Mode::Exclusive);
        if mode == Mode::Shared {
            return;
        }
        if state.released.is_none_or(|at| at.elapsed() > moment) {
            state.streak = None;
        }
        state.streak.get_or_insert_with(Instant::now);
    }

    /// Notes that the contender did not get it, and when the next may ask.
    pub(crate) fn on_error(&self, error: &AcquireError, next: Instant) {
        let mut state = self.state();
        (state.last_error, state.held) = (Some((error.clone(), next)), false);
    }

    /// Notes that a lease of this process was released, and wakes the contender. It was `handed_over` if nobody
    /// elsewhere was told.
    pub(crate) fn on_released(&self, handed_over: bool) {
        let mut state = self.state();
        (state.held, state.released, state.handed_over) =
            (false, Some(Instant::now()), handed_over);
        drop(state);
        self.released.notify_one();
    }

    /// Reports whether leases of this process have followed one another for longer than that, and
    /// begins to count anew.
    pub(crate) fn ends_streak(&self, longest: Duration) -> bool {
        let mut state = self.state();
        let over = state.streak.is_some_and(|since| since.elapsed() > longest);
        if over {
            state.streak = None;
        }
        over
    }

    /// Others were first.
    pub(crate) fn breaks_streak(&self) {
        self.state().streak = None;
    }

    /// Reports whether the queue has something to remember although nobody is in it.
    pub(crate) fn is_recent(&self, moment: Duration) -> bool {
        let state = self.state();
        state.held || state.released.is_some_and(|at| at.elapsed() < moment)
    }
}
