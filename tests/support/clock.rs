//! Clocks that follow the runtime's, which stands still and jumps in paused tests. A clock that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use fencing::time::{Clock, SystemClock, Time};

/// The runtime's clock. Clones jump together.
#[derive(Debug, Clone)]
pub struct TokioClock {
    start: tokio::time::Instant,
    ahead: Arc<AtomicI64>,
}

impl TokioClock {
    pub fn new() -> TokioClock {
        TokioClock { start: tokio::time::Instant::now(), ahead: Arc::default() }
    }

    /// The same clock, except that it jumps by itself.
    pub fn apart(&self) -> TokioClock {
        TokioClock { start: self.start, ahead: Arc::default() }
    }

    /// Jumps by so many seconds, backwards too, as a machine's clock does that is set.
    pub fn jump(&self, seconds: i64) {
        self.ahead.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Time {
        let seconds = 100_000_u64.checked_add_signed(self.ahead.load(Ordering::SeqCst));
        Time::from_start(Duration::from_secs(seconds.expect("not before the start")) + self.start.elapsed())
    }
}

/// The clock of a caller, which panics in a task.
#[derive(Debug, Clone, Default)]
pub struct FaultyClock(Arc<AtomicUsize>);

impl FaultyClock {
    /// Panics at the call of this number from now on.
    pub fn fails_at(&self, call: usize) {
        self.0.store(call, Ordering::SeqCst);
    }

    pub fn has_failed(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }
}

impl Clock for FaultyClock {
    fn now(&self) -> Time {
        let counted = |left: usize| left.checked_sub(1).filter(|_| tokio::task::try_id().is_some());
        if self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, counted) == Ok(1) {
            panic!("a clock that fails");
        }
        SystemClock.now()
    }
}
