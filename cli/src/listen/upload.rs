use std::mem::take;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::{Request, Version};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, Limited, StreamBody};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

/// How much of an unread upload is drained, in bytes, and for how long.
const MAX_DRAINED: usize = 64 << 10;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The body of a request, whose client may pause for a bounded time, and may take a bounded time in all.
struct Upload {
    body: Body,
    /// How many bytes are still to come, where that is known: the end itself may not be read.
    left: Option<u64>,
    drains: bool,
    patience: Duration,
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
        let due = || self.state.borrow().1 + patience;
        while due() > Instant::now() {
            sleep_until(due()).await;
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

/// Bounds each pause of an upload by `patience`, and the whole by `longest`. In HTTP/2 an answer before the end of the
/// upload resets the stream, and some clients take that for the answer. So the rest of a short upload is drained. In
/// HTTP/1 that would ask for an upload that a client holds back (`Expect`).
pub(crate) fn bounded(request: Request<Body>, patience: Duration, longest: Duration) -> (Request<Body>, Progress) {
    let now = Instant::now();
    let state = watch::Sender::new((UploadState::Sending, now));
    let progress = Progress { state, until: now + longest };
    if request.body().is_end_stream() {
        progress.end(UploadState::Sent);
        return (request, progress);
    }
    let drains = request.version() == Version::HTTP_2;
    let request = request.map(|body| {
        let upload = Upload { left: body.size_hint().exact(), body, drains, patience, progress: progress.clone() };
        Body::new(StreamBody::new(stream::unfold(upload, async |mut upload| Some((upload.next().await?, upload)))))
    });
    (request, progress)
}

impl Upload {
    /// Waits for the next frame of the client, and notes how the upload has ended.
    async fn next(&mut self) -> Option<Result<Frame<Bytes>, axum::Error>> {
        let Upload { body, left, patience, progress, .. } = self;
        let next = tokio::select! {
            biased;
            () = progress.ended() => Err("the request was abandoned; no more of it is sent"),
            next = timeout(*patience, body.frame()) => next.map_err(|_| "the client sent nothing for too long"),
        };
        if next.is_ok() {
            progress.note();
        }
        let next = match next {
            Ok(Some(Ok(_))) if progress.until <= Instant::now() => Err("the upload took too long"),
            next => next,
        };
        let next = next.unwrap_or_else(|why| Some(Err(axum::Error::new(why))));
        match &next {
            None => progress.end(UploadState::Sent),
            Some(Err(_)) => progress.end(UploadState::Failed),
            Some(Ok(frame)) => {
                *left = frame.data_ref().map_or(Some(0), |data| Some((*left)?.saturating_sub(data.len() as u64)));
            }
        }
        next
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let is_at_end = self.body.is_end_stream();
        let is_sent = is_at_end || self.left == Some(0);
        self.progress.end(if is_sent { UploadState::Sent } else { UploadState::Dropped });
        if let (true, false, Ok(runtime)) = (self.drains, is_at_end, Handle::try_current()) {
            let rest = Limited::new(take(&mut self.body), MAX_DRAINED);
            runtime.spawn(timeout(DRAIN_TIMEOUT, rest.collect()));
        }
    }
}
