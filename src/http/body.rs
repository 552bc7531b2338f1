use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::fence::{Admission, Stale};

/// Keeps a request in flight, and hears of a newer one.
pub(super) struct Guard {
    superseded: BoxFuture<'static, Stale>,
    _admission: Admission,
}

impl Guard {
    pub(super) fn new(admission: Admission) -> Guard {
        Guard { superseded: admission.superseded().boxed(), _admission: admission }
    }

    /// The newer one, once there is one and the fence drops older requests.
    pub(super) fn superseded(&mut self, context: &mut Context<'_>) -> Option<Stale> {
        match self.superseded.poll_unpin(context) {
            Poll::Ready(stale) => Some(stale),
            Poll::Pending => None,
        }
    }
}

pin_project! {
    /// A response body behind a fence. The request is in flight until it ends.
    pub struct FenceBody<R> {
        #[pin]
        kind: Kind<R>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<R> {
        Refusal { text: Option<Bytes> },
        Inner { #[pin] body: R, guard: Option<Guard> },
        Cut,
    }
}

/// Why a response body broke off.
#[derive(Debug, thiserror::Error)]
pub enum FenceBodyError<E> {
    /// The inner body's own error.
    #[error(transparent)]
    Inner(E),
    /// A newer token came, and the fence drops older requests.
    #[error("cut off: {0}")]
    Superseded(Stale),
}

impl<R: Body> FenceBody<R> {
    pub(super) fn new(body: R, guard: Option<Guard>) -> FenceBody<R> {
        let guard = guard.filter(|_| !body.is_end_stream());
        FenceBody { kind: Kind::Inner { body, guard } }
    }

    pub(super) fn refusal(text: Option<Bytes>) -> FenceBody<R> {
        FenceBody { kind: Kind::Refusal { text } }
    }
}

impl<R> Body for FenceBody<R>
where
    R: Body,
    R::Data: From<Bytes>,
{
    type Data = R::Data;
    type Error = FenceBodyError<R::Error>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<R::Data>, Self::Error>>> {
        let mut this = self.project();
        let stale = match this.kind.as_mut().project() {
            KindProjection::Cut => return Poll::Ready(None),
            KindProjection::Refusal { text } => {
                return Poll::Ready(text.take().map(|text| Ok(Frame::data(text.into()))));
            }
            KindProjection::Inner { mut body, guard } => {
                match guard.as_mut().and_then(|guard| guard.superseded(context)) {
                    Some(stale) => stale,
                    None => {
                        let frame = body.as_mut().poll_frame(context);
                        let ended = match &frame {
                            Poll::Ready(Some(Ok(_))) => body.is_end_stream(),
                            Poll::Ready(_) => true,
                            Poll::Pending => false,
                        };
                        if ended {
                            *guard = None;
                        }
                        return frame.map_err(FenceBodyError::Inner);
                    }
                }
            }
        };
        this.kind.set(Kind::Cut);
        Poll::Ready(Some(Err(FenceBodyError::Superseded(stale))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Refusal { text } => text.is_none(),
            Kind::Inner { body, .. } => body.is_end_stream(),
            Kind::Cut => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Refusal { text } => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            Kind::Inner { body, .. } => body.size_hint(),
            Kind::Cut => SizeHint::with_exact(0),
        }
    }
}
