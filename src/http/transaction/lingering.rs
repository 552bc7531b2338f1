use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;

/// A future that goes on in the background for a while if it is dropped before its end.
pub(super) struct Lingering<F: Future + Send + 'static>
where
    F::Output: Send,
{
    future: Option<Pin<Box<F>>>,
    grace: Duration,
}

impl<F: Future + Send + 'static> Lingering<F>
where
    F::Output: Send,
{
    pub(super) fn new(future: F, grace: Duration) -> Lingering<F> {
        Lingering { future: Some(Box::pin(future)), grace }
    }
}

impl<F: Future + Send + 'static> Future for Lingering<F>
where
    F::Output: Send,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // Out of its place while it is polled: one that panics must not be polled again.
        let Some(mut future) = self.future.take() else { return Poll::Pending };
        let polled = future.as_mut().poll(context);
        if polled.is_pending() {
            self.future = Some(future);
        }
        polled
    }
}

impl<F: Future + Send + 'static> Drop for Lingering<F>
where
    F::Output: Send,
{
    fn drop(&mut self) {
        let Some(future) = self.future.take() else { return };
        let grace = self.grace;
        if !grace.is_zero()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move { drop(timeout(grace, future).await) });
        }
    }
}
