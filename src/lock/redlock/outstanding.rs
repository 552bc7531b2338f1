use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts what a client still has on its way: requests without an answer, and re-admissions.
#[derive(Clone, Default)]
pub(super) struct Outstanding(Arc<Count>);

#[derive(Default)]
struct Count {
    count: AtomicUsize,
    nothing: Notify,
}

/// One of them, until it is dropped.
pub(super) struct OutstandingWork(Outstanding);

impl Outstanding {
    pub(super) fn begin(&self) -> OutstandingWork {
        self.0.count.fetch_add(1, Ordering::SeqCst);
        OutstandingWork(self.clone())
    }

    /// Waits until nothing is on its way. You may drop it at any point.
    pub(super) async fn over(&self) {
        loop {
            let mut nothing = pin!(self.0.nothing.notified());
            nothing.as_mut().enable();
            if self.0.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            nothing.await;
        }
    }
}

impl Drop for OutstandingWork {
    fn drop(&mut self) {
        if self.0.0.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.0.nothing.notify_waiters();
        }
    }
}
