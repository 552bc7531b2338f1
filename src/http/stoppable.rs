use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};

use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

use super::admissions::Admissions;
use crate::fence::{Stale, Stoppable};

/// A body that a newer request can drop from outside. A server does not poll the body of a
/// response whose client has stopped reading: it would never notice that it must end.
pub(super) struct StoppableBody<R>(Mutex<State<R>>);

struct State<R> {
    /// Taken out while it is in use.
    live: Option<LiveBody<R>>,
    stale: Option<Stale>,
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
        let this = Arc::new(StoppableBody(Mutex::new(State { live: Some(live), stale: None })));
        let weak: Weak<dyn Stoppable> = Arc::downgrade(&this) as Weak<StoppableBody<R>>;
        if let Some(stale) = this.with(|live| live.as_ref()?.admissions.on_stop(&weak)) {
            this.stop(stale);
        }
        this
    }
}

impl<R: Body> StoppableBody<R> {
    /// Polls the body. Returns the refusal if a newer request has dropped it.
    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Result<NextFrame<R>, Stale>> {
        let polled = self.with(|place| {
            let live = place.as_mut()?;
            let polled = poll_next(live.body.as_mut(), context);
            match &polled {
                Poll::Pending => live.waker = Some(context.waker().clone()),
                Poll::Ready((_, ends)) if *ends => *place = None,
                Poll::Ready(_) => {}
            }
            Some(polled)
        });
        match polled {
            Some(polled) => polled.map(Ok),
            None => Poll::Ready(self.0.lock().stale.clone().map_or(Ok((None, true)), Err)),
        }
    }

    /// A body that was dropped before its end has not ended: its next poll says so.
    pub(super) fn is_end_stream(&self) -> bool {
        self.with(|live| live.as_ref().is_some_and(|live| live.body.is_end_stream()))
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.with(|live| live.as_ref().map_or_else(SizeHint::default, |live| live.body.size_hint()))
    }
}

impl<R> StoppableBody<R> {
    /// Works on the body, and drops it if a newer request came in the meantime.
    fn with<T>(&self, work: impl FnOnce(&mut Option<LiveBody<R>>) -> T) -> T {
        let mut live = self.0.lock().live.take();
        let outcome = work(&mut live);
        let mut state = self.0.lock();
        if state.stale.is_none() {
            state.live = live.take();
        }
        drop(state);
        end(live);
        outcome
    }
}

/// Drops the body, then lets newer requests in, and wakes the task that waits for a frame.
fn end<R>(live: Option<LiveBody<R>>) {
    let waker = live.and_then(|mut live| live.waker.take());
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl<R: Send> Stoppable for StoppableBody<R> {
    fn stop(&self, stale: Stale) {
        let mut state = self.0.lock();
        state.stale.get_or_insert(stale);
        let live = state.live.take();
        drop(state);
        end(live);
    }
}
