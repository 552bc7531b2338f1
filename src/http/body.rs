use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio_util::task::AbortOnDropHandle;

use super::Refusal;
use super::admissions::{Admissions, superseded};
use super::answer::AnswerStyle;
use crate::fence::Stale;

pin_project! {
    /// The body of a response behind a fence, or on the client's side of one. Behind a fence, the request
    /// stays in flight until the body has ended or is dropped.
    ///
    /// The inner body is dropped at its end, before a newer request is admitted. The default is an
    /// empty body, which layers outside use for answers of their own.
    #[derive(derive_more::Debug)]
    #[debug("FenceBody {{ .. }}")]
    pub struct FenceBody<R> {
        #[pin]
        content: Content<R>,
    }
}

pin_project! {
    #[project = ContentProjection]
    enum Content<R> {
        Refusal { text: Option<Bytes> },
        // Newer requests do not stop it. The body is dropped before newer requests are admitted.
        Whole { #[pin] body: R, _admissions: Admissions },
        // The trailers that tell a gRPC client why its stream is cut off.
        Stoppable { body: StoppableBody<R>, grpc: Option<AnswerStyle> },
        Ended { hint: SizeHint },
    }
}

impl<R> Default for FenceBody<R> {
    fn default() -> FenceBody<R> {
        FenceBody { content: Content::Ended { hint: SizeHint::with_exact(0) } }
    }
}

/// Why a response body broke off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceBodyError {
    /// The inner body failed with an error of its own.
    #[error(transparent)]
    Inner(Box<dyn Error + Send + Sync>),
    /// A newer token came, and the fence drops older requests. A gRPC client gets a status in the trailers instead.
    #[error("response cut off by a newer request: {0}")]
    Superseded(Stale),
}

impl<R> FenceBody<R> {
    pub(super) fn passing(body: R) -> FenceBody<R> {
        FenceBody { content: Content::Whole { body, _admissions: Admissions::new() } }
    }

    pub(super) fn refusal(text: Option<Bytes>) -> FenceBody<R> {
        FenceBody { content: Content::Refusal { text } }
    }
}

impl<R: Body + Send + 'static> FenceBody<R> {
    pub(super) fn new(body: R, admissions: Admissions, style: &AnswerStyle) -> FenceBody<R> {
        let content = match admissions.first() {
            Some(_) if body.is_end_stream() => {
                let hint = body.size_hint();
                drop(body);
                Content::Ended { hint }
            }
            Some(admission) if admission.may_be_stopped => {
                let grpc = style.grpc.then(|| style.clone());
                Content::Stoppable { body: StoppableBody::new(body, admissions), grpc }
            }
            _ => Content::Whole { body, _admissions: admissions },
        };
        FenceBody { content }
    }
}

impl<R> Body for FenceBody<R>
where
    R: Body,
    R::Data: From<Bytes>,
    R::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = R::Data;
    type Error = FenceBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<R::Data>, FenceBodyError>>> {
        let mut this = self.project();
        let (frame, ends) = match this.content.as_mut().project() {
            ContentProjection::Ended { .. } => return Poll::Ready(None),
            ContentProjection::Refusal { text } => {
                return Poll::Ready(text.take().map(|text| Ok(Frame::data(text.into()))));
            }
            ContentProjection::Whole { body, .. } => ready!(poll_next(body, context)),
            ContentProjection::Stoppable { body, grpc } => match ready!(body.poll_next(context)) {
                Ok(next) => next,
                Err(stale) => {
                    let end = match grpc {
                        Some(style) => Ok(Frame::trailers(Refusal::Superseded(stale).grpc_metadata(style))),
                        None => Err(FenceBodyError::Superseded(stale)),
                    };
                    this.content.set(Content::Ended { hint: SizeHint::with_exact(0) });
                    return Poll::Ready(Some(end));
                }
            },
        };
        if ends {
            this.content.set(Content::Ended { hint: SizeHint::with_exact(0) });
        }
        let inner = |error: R::Error| FenceBodyError::Inner(error.into());
        Poll::Ready(frame.map(|frame| frame.map_err(inner)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Refusal { text } => text.is_none(),
            Content::Whole { body, .. } => body.is_end_stream(),
            Content::Stoppable { body, .. } => body.is_end_stream(),
            Content::Ended { .. } => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Refusal { text } => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Content::Whole { body, .. } => body.size_hint(),
            Content::Stoppable { body, .. } => body.size_hint(),
            Content::Ended { hint } => hint.to_owned(),
        }
    }
}

/// A body that a newer request can drop from outside. A server does not poll the body of a
/// response whose client has stopped reading: a task notices in its place that it must end.
struct StoppableBody<R> {
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
type NextFrame<R> = (Option<Result<Frame<<R as Body>::Data>, <R as Body>::Error>>, bool);

/// Polls the next frame of a body.
fn poll_next<R: Body>(mut body: Pin<&mut R>, context: &mut Context<'_>) -> Poll<NextFrame<R>> {
    let frame = ready!(body.as_mut().poll_frame(context));
    let ends = !matches!(frame, Some(Ok(_))) || body.is_end_stream();
    Poll::Ready((frame, ends))
}

impl<R: Body + Send + 'static> StoppableBody<R> {
    fn new(body: R, admissions: Admissions) -> StoppableBody<R> {
        let (asked, superseded) = (superseded(&admissions), superseded(&admissions));
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
    fn poll_next(&self, context: &mut Context<'_>) -> Poll<Result<NextFrame<R>, Stale>> {
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
    fn is_end_stream(&self) -> bool {
        self.body.lock().as_ref().is_ok_and(|live| live.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.lock().as_ref().map_or_else(|_| SizeHint::default(), |live| live.body.size_hint())
    }
}
