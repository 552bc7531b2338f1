use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// A future that goes on in the background for a while if it is dropped before its end.
pub(super) struct Lingering<T: Send + 'static> {
    future: Option<BoxFuture<'static, T>>,
    grace: Duration,
}

impl<T: Send + 'static> Lingering<T> {
    pub(super) fn new(
        future: impl Future<Output = T> + Send + 'static,
        grace: Duration,
    ) -> Lingering<T> {
        Lingering { future: Some(future.boxed()), grace }
    }
}

impl<T: Send + 'static> Future for Lingering<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // It is taken out while it is polled: a future that has panicked must not be polled again.
        let Some(mut future) = self.future.take() else { return Poll::Pending };
        let polled = future.poll_unpin(context);
        if polled.is_pending() {
            self.future = Some(future);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Lingering<T> {
    fn drop(&mut self) {
        let Some(future) = self.future.take() else { return };
        if !self.grace.is_zero()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(timeout(self.grace, future));
        }
    }
}
