use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a response that came through an [`AttachService`](super::AttachService).
    pub struct AttachBody<R> {
        #[pin]
        content: Content<R>,
    }
}

pin_project! {
    #[project = ContentProjection]
    enum Content<R> {
        Passing { #[pin] body: R },
        // Problem details that are not of a fence.
        Read { text: Option<Bytes> },
    }
}

impl<R> AttachBody<R> {
    pub(super) fn passing(body: R) -> AttachBody<R> {
        AttachBody { content: Content::Passing { body } }
    }

    pub(super) fn read(text: Bytes) -> AttachBody<R> {
        AttachBody { content: Content::Read { text: Some(text).filter(|text| !text.is_empty()) } }
    }
}

impl<R> fmt::Debug for AttachBody<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachBody").finish_non_exhaustive()
    }
}

impl<R: Body> Body for AttachBody<R>
where
    R::Data: From<Bytes>,
{
    type Data = R::Data;
    type Error = R::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        match self.project().content.project() {
            ContentProjection::Passing { body } => body.poll_frame(context),
            ContentProjection::Read { text } => {
                Poll::Ready(text.take().map(|text| Ok(Frame::data(text.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Passing { body } => body.is_end_stream(),
            Content::Read { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Passing { body } => body.size_hint(),
            Content::Read { text } => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
        }
    }
}
