use std::mem::take;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Version};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt, Limited};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

/// How much of an unread upload is drained, in bytes, and for how long.
const MAX_DRAINED: usize = 64 << 10;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The body of a request, whose client may pause for a bounded time, and may take a bounded time in all.
struct Upload {
    body: Body,
    drains: bool,
    patience: Duration,
    pause: Option<Pin<Box<Sleep>>>,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UploadState {
    Sending,
    Sent,
    Failed,
    /// It was dropped before its end, as when the connection to the service breaks.
    Dropped,
}

#[derive(Clone)]
pub(crate) struct Progress {
    /// How far it has come, and when its last frame was passed on.
    state: watch::Sender<(UploadState, Instant)>,
    pub(crate) until: Instant,
}

impl Progress {
    pub(crate) fn state(&self) -> UploadState {
        self.state.borrow().0
    }

    pub(crate) async fn ended(&self) {
        let _ = self.state.subscribe().wait_for(|(state, _)| *state != UploadState::Sending).await;
    }

    pub(crate) fn note(&self) {
        self.state.send_modify(|(_, last)| *last = Instant::now());
    }

    pub(crate) async fn stalled(&self, patience: Duration) {
        loop {
            let due = self.state.borrow().1 + patience;
            if due <= Instant::now() {
                return;
            }
            sleep_until(due).await;
        }
    }

    /// Notes how it has ended, unless it had ended before. What has failed sends nothing more.
    pub(crate) fn end(&self, end: UploadState) {
        self.state.send_if_modified(|(state, _)| {
            let ends = *state == UploadState::Sending;
            *state = if ends { end } else { *state };
            ends
        });
    }
}

/// Bounds each pause of an upload by `patience`, and the whole by `longest`.
///
/// In HTTP/2 an answer before the end of the upload resets the stream, and some clients take that for
/// the answer. So the rest of a short upload is drained. In HTTP/1 that would ask a client for an
/// upload that it holds back (`Expect`).
pub(crate) fn bounded(request: Request<Body>, patience: Duration, longest: Duration) -> (Request<Body>, Progress) {
    let drains = request.version() == Version::HTTP_2;
    let now = Instant::now();
    let state = watch::Sender::new((UploadState::Sending, now));
    let progress = Progress { state, until: now + longest };
    let request =
        request.map(|body| Body::new(Upload { body, drains, patience, pause: None, progress: progress.clone() }));
    (request, progress)
}

type Polled = Poll<Option<Result<Frame<Bytes>, axum::Error>>>;

impl Upload {
    fn poll(&mut self, context: &mut Context<'_>) -> Polled {
        let failed = |why: &'static str| Poll::Ready(Some(Err(axum::Error::new(why))));
        if self.progress.state() == UploadState::Failed {
            return failed("the request was abandoned; no more of it is sent");
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.pause = None;
            self.progress.note();
            return match frame {
                Some(Ok(_)) if self.progress.until <= Instant::now() => failed("the upload took too long"),
                frame => Poll::Ready(frame),
            };
        }
        let patience = self.patience;
        let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(pause.poll_unpin(context));
        failed("the client sent nothing for too long")
    }
}

impl http_body::Body for Upload {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled {
        let polled = self.poll(context);
        match &polled {
            Poll::Ready(None) => self.progress.end(UploadState::Sent),
            Poll::Ready(Some(Err(_))) => self.progress.end(UploadState::Failed),
            Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let is_sent = self.body.is_end_stream();
        self.progress.end(if is_sent { UploadState::Sent } else { UploadState::Dropped });
        if let (true, false, Ok(runtime)) = (self.drains, is_sent, Handle::try_current()) {
            let rest = Limited::new(take(&mut self.body), MAX_DRAINED);
            runtime.spawn(timeout(DRAIN_TIMEOUT, rest.collect()));
        }
    }
}
