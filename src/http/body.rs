use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::fence::{Admission, Stale};

/// Keeps a request in flight until this is dropped, and notices a newer one.
pub(super) struct AdmittedRequest {
    /// In a mutex that is never locked: so a body can be shared between threads.
    superseded: Mutex<BoxFuture<'static, Stale>>,
    _admission: Admission,
}

impl AdmittedRequest {
    pub(super) fn new(admission: Admission) -> AdmittedRequest {
        let superseded = Mutex::new(admission.superseded().boxed());
        AdmittedRequest { superseded, _admission: admission }
    }

    /// Returns the refusal, once there is a newer request and the fence drops older ones.
    pub(super) fn superseded(&mut self, context: &mut Context<'_>) -> Option<Stale> {
        let superseded = self.superseded.get_mut().unwrap_or_else(PoisonError::into_inner);
        match superseded.poll_unpin(context) {
            Poll::Ready(stale) => Some(stale),
            Poll::Pending => None,
        }
    }
}

pin_project! {
    /// The body of a response behind a fence. The request stays in flight until the body has
    /// ended or is dropped.
    pub struct FenceBody<R> {
        #[pin]
        content: Content<R>,
    }
}

pin_project! {
    #[project = ContentProjection]
    enum Content<R> {
        Refusal { text: Option<Bytes> },
        // They are dropped in this order: the body is gone before newer requests are let in.
        Inner { #[pin] body: R, admitted: Option<AdmittedRequest> },
        Ended { hint: SizeHint },
    }
}

impl<R> fmt::Debug for FenceBody<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceBody").finish_non_exhaustive()
    }
}

impl<R> Default for FenceBody<R> {
    /// Makes a body without content, as layers outside want it for answers of their own.
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
    /// A newer token came, and the fence drops older requests.
    #[error("response cut off by a newer request: {0}")]
    Superseded(Stale),
}

impl<R: Body> FenceBody<R> {
    pub(super) fn new(body: R, admitted: Option<AdmittedRequest>) -> FenceBody<R> {
        let content = if body.is_end_stream() {
            let hint = body.size_hint();
            drop(body);
            drop(admitted);
            Content::Ended { hint }
        } else {
            Content::Inner { body, admitted }
        };
        FenceBody { content }
    }

    pub(super) fn refusal(text: Option<Bytes>) -> FenceBody<R> {
        FenceBody { content: Content::Refusal { text } }
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
    ) -> Poll<Option<Result<Frame<R::Data>, Self::Error>>> {
        let mut this = self.project();
        let (frame, hint) = match this.content.as_mut().project() {
            ContentProjection::Ended { .. } => return Poll::Ready(None),
            ContentProjection::Refusal { text } => {
                return Poll::Ready(text.take().map(|text| Ok(Frame::data(text.into()))));
            }
            ContentProjection::Inner { mut body, admitted } => {
                match admitted.as_mut().and_then(|admitted| admitted.superseded(context)) {
                    Some(stale) => {
                        (Some(Err(FenceBodyError::Superseded(stale))), SizeHint::with_exact(0))
                    }
                    None => match ready!(body.as_mut().poll_frame(context)) {
                        Some(Ok(frame)) if !body.is_end_stream() => {
                            return Poll::Ready(Some(Ok(frame)));
                        }
                        Some(Ok(frame)) => (Some(Ok(frame)), body.size_hint()),
                        Some(Err(error)) => (
                            Some(Err(FenceBodyError::Inner(error.into()))),
                            SizeHint::with_exact(0),
                        ),
                        None => (None, SizeHint::with_exact(0)),
                    },
                }
            }
        };
        this.content.set(Content::Ended { hint });
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Refusal { text } => text.is_none(),
            Content::Inner { body, .. } => body.is_end_stream(),
            Content::Ended { .. } => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Refusal { text } => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            Content::Inner { body, .. } => body.size_hint(),
            Content::Ended { hint } => hint.to_owned(),
        }
    }
}
