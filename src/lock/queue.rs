use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as FairMutex, Notify};
use tokio::time::Instant;

use super::AcquireError;
use crate::protocol::Mode;

/// The queue of one resource in this process.
#[derive(Default)]
pub(super) struct Queue {
    /// The contender holds it: the one who asks the servers.
    pub(super) turn: FairMutex<()>,
    state: Mutex<State>,
    /// Wakes the contender: a lease of this process was released.
    pub(super) released: Notify,
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
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn last_error(&self) -> Option<(AcquireError, Instant)> {
        self.state().last_error.clone()
    }

    pub(super) fn is_held(&self) -> bool {
        self.state().held
    }

    /// Notes that the contender got the lease. It follows the last one of this process if that was
    /// released a `moment` ago at most. One that is shared keeps nobody here from asking.
    pub(super) fn on_acquired(&self, mode: Mode, moment: Duration) {
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
    pub(super) fn on_error(&self, error: &AcquireError, next: Instant) {
        let mut state = self.state();
        (state.last_error, state.held) = (Some((error.clone(), next)), false);
    }

    /// Notes that a lease of this process was released, and wakes the contender.
    pub(super) fn on_released(&self) {
        let mut state = self.state();
        (state.held, state.released) = (false, Some(Instant::now()));
        drop(state);
        self.released.notify_one();
    }

    /// Reports whether leases of this process have followed one another for longer than that, and
    /// begins to count anew.
    pub(super) fn ends_streak(&self, longest: Duration) -> bool {
        let mut state = self.state();
        let over = state.streak.is_some_and(|since| since.elapsed() > longest);
        if over {
            state.streak = None;
        }
        over
    }

    /// Others were first.
    pub(super) fn breaks_streak(&self) {
        self.state().streak = None;
    }

    /// Reports whether the queue has something to remember although nobody is in it.
    pub(super) fn is_recent(&self, moment: Duration) -> bool {
        let state = self.state();
        state.held || state.released.is_some_and(|at| at.elapsed() < moment)
    }
}
