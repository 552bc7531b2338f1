use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

/// One timer for many limits. It is set again only for an earlier one, and may wake the task early.
pub(super) struct Timer {
    sleep: Pin<Box<Sleep>>,
    set: bool,
}

impl Timer {
    pub(super) fn new() -> Timer {
        Timer { sleep: Box::pin(sleep_until(Instant::now())), set: false }
    }

    /// Waits until `limit`, or until an earlier limit that it was set for.
    pub(super) fn poll_until(&mut self, limit: Instant, context: &mut Context<'_>) -> Poll<()> {
        if !self.set || limit < self.sleep.deadline() {
            self.sleep.as_mut().reset(limit);
            self.set = true;
        }
        let polled = self.sleep.as_mut().poll(context);
        self.set = polled.is_pending();
        polled
    }
}
