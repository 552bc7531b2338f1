use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::admissions::Admissions;
use crate::fence::Stale;

/// A body that a newer request can drop from outside. A server does not poll the body of a
/// response whose client has stopped reading: a task notices in its place that it must end.
pub(super) struct StoppableBody<R> {
    /// After a newer request has stopped it, a refusal is left.
    body: Arc<Mutex<Result<LiveBody<R>, Stale>>>,
    _stops: AbortOnDropHandle<()>,
}

/// Its fields are dropped in this order: the body is dropped before newer requests are admitted.
struct LiveBody<R> {
    body: Pin<Box<R>>,
    superseded: BoxFuture<'static, Stale>,
    _admissions: Admissions,
}

/// A frame, if there is one more, and whether the body ends with it.
pub(super) type NextFrame<R> = (Option<Result<Frame<<R as Body>::Data>, <R as Body>::Error>>, bool);

/// Polls the next frame of a body.
pub(super) fn poll_next<R: Body>(mut body: Pin<&mut R>, context: &mut Context<'_>) -> Poll<NextFrame<R>> {
    let frame = ready!(body.as_mut().poll_frame(context));
    let ends = !matches!(frame, Some(Ok(_))) || body.is_end_stream();
    Poll::Ready((frame, ends))
}

impl<R: Body + Send + 'static> StoppableBody<R> {
    pub(super) fn new(body: R, admissions: Admissions) -> StoppableBody<R> {
        let (asked, superseded) = (admissions.superseded(), admissions.superseded());
        let live = LiveBody { body: Box::pin(body), superseded, _admissions: admissions };
        let body = Arc::new(Mutex::new(Ok(live)));
        let stopped = Arc::downgrade(&body);
        let stops = tokio::spawn(async move {
            let stale = asked.await;
            if let Some(body) = stopped.upgrade() {
                *body.lock() = Err(stale);
            }
        });
        StoppableBody { body, _stops: AbortOnDropHandle::new(stops) }
    }
}

impl<R: Body> StoppableBody<R> {
    /// Polls the body. Returns the refusal if a newer request has dropped it.
    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Result<NextFrame<R>, Stale>> {
        let mut body = self.body.lock();
        let stale = match &mut *body {
            Err(stale) => stale.clone(),
            Ok(live) => match live.superseded.poll_unpin(context) {
                Poll::Ready(stale) => stale,
                Poll::Pending => return poll_next(live.body.as_mut(), context).map(Ok),
            },
        };
        *body = Err(stale.clone());
        Poll::Ready(Err(stale))
    }

    /// A body that was dropped before its end has not ended: its next poll says so.
    pub(super) fn is_end_stream(&self) -> bool {
        self.body.lock().as_ref().is_ok_and(|live| live.body.is_end_stream())
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.body.lock().as_ref().map_or_else(|_| SizeHint::default(), |live| live.body.size_hint())
    }
}
