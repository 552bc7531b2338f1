use std::pin::Pin;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker, ready};

use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

use super::admissions::Admissions;
use crate::fence::{Stale, Stoppable};

/// A body that a newer request can drop from outside. A server does not poll the body of a
/// response whose client has stopped reading: it would never notice that it must end.
pub(super) struct StoppableBody<R> {
    live: Mutex<Option<LiveBody<R>>>,
    stale: OnceLock<Stale>,
}

/// Its fields are dropped in this order: the body is gone before newer requests are let in.
struct LiveBody<R> {
    body: Pin<Box<R>>,
    waker: Option<Waker>,
    admissions: Admissions,
}

/// A frame, if there is one more, and whether the body ends with it.
pub(super) type NextFrame<R> = (Option<Result<Frame<<R as Body>::Data>, <R as Body>::Error>>, bool);

/// Polls the next frame of a body.
pub(super) fn poll_next<R: Body>(
    mut body: Pin<&mut R>,
    context: &mut Context<'_>,
) -> Poll<NextFrame<R>> {
    let frame = ready!(body.as_mut().poll_frame(context));
    let ends = !matches!(frame, Some(Ok(_))) || body.is_end_stream();
    Poll::Ready((frame, ends))
}

impl<R: Body + Send + 'static> StoppableBody<R> {
    pub(super) fn new(body: R, admissions: Admissions) -> Arc<StoppableBody<R>> {
        let live = LiveBody { body: Box::pin(body), waker: None, admissions };
        let this = Arc::new(StoppableBody { live: Mutex::new(Some(live)), stale: OnceLock::new() });
        let weak: Weak<dyn Stoppable> = Arc::downgrade(&this) as Weak<StoppableBody<R>>;
        if let Some(stale) = this.with(|live| live.and_then(|live| live.admissions.on_stop(&weak)))
        {
            this.stop(stale);
        }
        this
    }
}

impl<R: Body> StoppableBody<R> {
    /// Polls the body. Returns the refusal if a newer request has dropped it.
    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Result<NextFrame<R>, Stale>> {
        let polled = self.with(|live| {
            let live = live?;
            let polled = poll_next(live.body.as_mut(), context);
            if polled.is_pending() {
                live.waker = Some(context.waker().clone());
            }
            Some(polled)
        });
        match (polled, self.stale.get()) {
            (Some(polled), _) => {
                let (frame, ends) = ready!(polled);
                if ends {
                    self.end();
                }
                Poll::Ready(Ok((frame, ends)))
            }
            (None, Some(stale)) => Poll::Ready(Err(stale.clone())),
            (None, None) => Poll::Ready(Ok((None, true))),
        }
    }

    /// A body that was dropped before its end has not ended: its next poll says so.
    pub(super) fn is_end_stream(&self) -> bool {
        self.with(|live| live.is_some_and(|live| live.body.is_end_stream()))
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.with(|live| live.map_or_else(SizeHint::default, |live| live.body.size_hint()))
    }
}

impl<R> StoppableBody<R> {
    /// Works on the body, and obeys if a newer request came in the meantime.
    fn with<T>(&self, work: impl FnOnce(Option<&mut LiveBody<R>>) -> T) -> T {
        let outcome = {
            let mut live = self.live.lock();
            work(live.as_mut())
        };
        // With the one in `stop`: the second of the two sees what the other has done.
        fence(Ordering::SeqCst);
        if self.stale.get().is_some() {
            self.end();
        }
        outcome
    }

    /// Drops the body, then lets newer requests in. While the body is in use it does nothing: `with`
    /// does it then.
    fn end(&self) {
        let live = self.live.try_lock().and_then(|mut live| live.take());
        let waker = live.and_then(|mut live| live.waker.take());
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<R: Send> Stoppable for StoppableBody<R> {
    fn stop(&self, stale: Stale) {
        let _ = self.stale.set(stale);
        fence(Ordering::SeqCst);
        self.end();
    }
}
