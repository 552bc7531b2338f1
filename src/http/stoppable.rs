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
    held: Mutex<Option<Held<R>>>,
    stale: OnceLock<Stale>,
}

/// They are dropped in this order: the body is gone before newer requests are let in.
struct Held<R> {
    body: Pin<Box<R>>,
    waker: Option<Waker>,
    admissions: Admissions,
}

/// A frame, and what the body would say of its size if the frame is the last.
pub(super) type Polled<R> =
    (Option<Result<Frame<<R as Body>::Data>, <R as Body>::Error>>, Option<SizeHint>);

/// Returns what the body says of its size, if this frame is its last.
pub(super) fn hint_at_end<R: Body>(
    body: &R,
    frame: &Option<Result<Frame<R::Data>, R::Error>>,
) -> Option<SizeHint> {
    match frame {
        Some(Ok(_)) if body.is_end_stream() => Some(body.size_hint()),
        Some(Ok(_)) => None,
        _ => Some(SizeHint::with_exact(0)),
    }
}

impl<R: Body + Send + 'static> StoppableBody<R> {
    pub(super) fn new(body: R, admissions: Admissions) -> Arc<StoppableBody<R>> {
        let held = Held { body: Box::pin(body), waker: None, admissions };
        let this = Arc::new(StoppableBody { held: Mutex::new(Some(held)), stale: OnceLock::new() });
        let weak: Weak<dyn Stoppable> = Arc::downgrade(&this) as Weak<StoppableBody<R>>;
        if let Some(stale) = this.with(|held| held.and_then(|held| held.admissions.on_stop(&weak)))
        {
            this.stop(stale);
        }
        this
    }
}

impl<R: Body> StoppableBody<R> {
    /// Polls the body. Returns the refusal if a newer request has dropped it.
    pub(super) fn poll_frame(&self, context: &mut Context<'_>) -> Poll<Result<Polled<R>, Stale>> {
        let polled = self.with(|held| {
            let held = held?;
            let frame = held.body.as_mut().poll_frame(context);
            if frame.is_pending() {
                held.waker = Some(context.waker().clone());
            }
            Some(frame.map(|frame| {
                let hint = hint_at_end(&*held.body, &frame);
                (frame, hint)
            }))
        });
        match (polled, self.stale.get()) {
            (Some(polled), _) => {
                let (frame, hint) = ready!(polled);
                if hint.is_some() {
                    self.end();
                }
                Poll::Ready(Ok((frame, hint)))
            }
            (None, Some(stale)) => Poll::Ready(Err(stale.clone())),
            (None, None) => Poll::Ready(Ok((None, Some(SizeHint::with_exact(0))))),
        }
    }

    /// One that was dropped half way is not at its end: who asks is to be told.
    pub(super) fn is_end_stream(&self) -> bool {
        self.with(|held| held.is_some_and(|held| held.body.is_end_stream()))
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.with(|held| held.map_or_else(SizeHint::default, |held| held.body.size_hint()))
    }
}

impl<R> StoppableBody<R> {
    /// Works on the body, and obeys if a newer request came in the meantime.
    fn with<T>(&self, work: impl FnOnce(Option<&mut Held<R>>) -> T) -> T {
        let outcome = {
            let mut held = self.held.lock();
            work(held.as_mut())
        };
        // With the one in `stop`: the second of the two sees what the other has done.
        fence(Ordering::SeqCst);
        if self.stale.get().is_some() {
            self.end();
        }
        outcome
    }

    /// Drops the body, then lets newer requests in. It does nothing while somebody works on
    /// the body, who will do it.
    fn end(&self) {
        let held = self.held.try_lock().and_then(|mut held| held.take());
        let waker = held.and_then(|mut held| held.waker.take());
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
