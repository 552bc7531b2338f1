use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, Version};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt, Limited};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

/// How much of an unread upload is drained, in bytes, and for how long.
const MAX_DRAINED: usize = 64 << 10;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The body of a request, whose client may pause for a bounded time, and may take a bounded time in all.
pub(crate) struct Upload {
    body: Option<Body>,
    /// Whether its unread rest is drained.
    drains: bool,
    patience: Duration,
    pause: Option<Pin<Box<Sleep>>>,
    /// Cuts it off when it ends.
    superseded: Option<BoxFuture<'static, ()>>,
    /// Cleans its trailers.
    clean: fn(&mut HeaderMap),
    progress: Progress,
}

/// Why an upload ended before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    #[error("the client sent nothing for too long")]
    Stalled,
    #[error("the upload took too long")]
    TooLong,
    #[error("the request was given up, and nothing more of it is sent")]
    Stopped,
    #[error("a newer token came, and the upload was cut off")]
    Superseded,
    #[error(transparent)]
    Broken(#[from] axum::Error),
}

/// How far an upload has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UploadState {
    Sending,
    Sent,
    Failed,
    /// It was dropped before its end, as when the connection to the service breaks.
    Dropped,
}

/// The progress of an upload, for others.
#[derive(Clone)]
pub(crate) struct Progress {
    /// How far it has come, and when its last frame was passed on.
    state: watch::Sender<(UploadState, Instant)>,
    /// The deadline of the request.
    pub(crate) until: Instant,
}

impl Progress {
    pub(crate) fn state(&self) -> UploadState {
        self.state.borrow().0
    }

    /// Waits until nothing more of the upload is passed on.
    pub(crate) async fn ended(&self) {
        let _ = self.state.subscribe().wait_for(|(state, _)| *state != UploadState::Sending).await;
    }

    /// Notes that something has moved just now.
    pub(crate) fn note(&self) {
        self.state.send_modify(|(_, last)| *last = Instant::now());
    }

    /// Waits until nothing has moved for this long.
    pub(crate) async fn stalled(&self, patience: Duration) {
        loop {
            let due = self.state.borrow().1 + patience;
            if due <= Instant::now() {
                return;
            }
            sleep_until(due).await;
        }
    }

    /// Stops passing the upload on.
    pub(crate) fn stop(&self) {
        self.end(UploadState::Failed);
    }

    /// Notes how it has ended, unless it had ended before.
    fn end(&self, end: UploadState) {
        self.state.send_if_modified(|(state, _)| {
            let ends = *state == UploadState::Sending;
            *state = if ends { end } else { *state };
            ends
        });
    }
}

impl Upload {
    /// Bounds each pause by `patience`, and the whole by `longest`.
    ///
    /// In HTTP/2 an answer before the end of the upload resets the stream, and some clients take that for
    /// the answer. So the rest of a short upload is drained. In HTTP/1 that would ask a client for an
    /// upload that it holds back (`Expect`).
    pub(crate) fn new(
        request: Request<Body>,
        patience: Duration,
        longest: Duration,
    ) -> Request<Upload> {
        let drains = request.version() == Version::HTTP_2;
        let now = Instant::now();
        let state = watch::Sender::new((UploadState::Sending, now));
        let progress = Progress { state, until: now + longest };
        let (pause, superseded) = (None, None);
        request.map(|body| {
            let body = Some(body);
            Upload { body, drains, patience, pause, superseded, clean: |_| (), progress }
        })
    }

    /// Cleans the trailers with this function.
    pub(crate) fn cleaned(mut self, clean: fn(&mut HeaderMap)) -> Upload {
        self.clean = clean;
        self
    }

    /// Cuts the upload off when this future ends, unless the upload has ended by then.
    pub(crate) fn cut_by(
        mut self,
        superseded: impl Future<Output = ()> + Send + 'static,
    ) -> Upload {
        self.superseded = Some(superseded.boxed());
        self
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        if self.progress.state() == UploadState::Failed {
            return Poll::Ready(Some(Err(UploadError::Stopped)));
        }
        if self.superseded.as_mut().is_some_and(|newer| newer.poll_unpin(context).is_ready()) {
            return Poll::Ready(Some(Err(UploadError::Superseded)));
        }
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(context) {
            self.pause = None;
            self.progress.note();
            let in_time = Instant::now() < self.progress.until;
            return Poll::Ready(frame.map(|frame| match frame {
                Ok(_) if !in_time => Err(UploadError::TooLong),
                frame => frame.map_err(UploadError::Broken),
            }));
        }
        let patience = self.patience;
        let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(patience)));
        pause.poll_unpin(context).map(|()| Some(Err(UploadError::Stalled)))
    }
}

impl http_body::Body for Upload {
    type Data = Bytes;
    type Error = UploadError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let mut polled = self.poll(context);
        match &mut polled {
            Poll::Ready(Some(Ok(frame))) => frame.trailers_mut().into_iter().for_each(self.clean),
            Poll::Ready(end) => {
                let failed = end.is_some();
                self.progress.end(if failed { UploadState::Failed } else { UploadState::Sent });
                self.superseded = None;
            }
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let rest = self.body.take().filter(|body| !body.is_end_stream());
        self.progress.end(if rest.is_some() { UploadState::Dropped } else { UploadState::Sent });
        if let (true, Some(rest), Ok(runtime)) = (self.drains, rest, Handle::try_current()) {
            runtime.spawn(timeout(DRAIN_TIMEOUT, Limited::new(rest, MAX_DRAINED).collect()));
        }
    }
}
