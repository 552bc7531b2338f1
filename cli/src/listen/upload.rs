use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// How much of an upload that nobody reads is read away, in bytes, and for how long.
const REST: usize = 64 << 10;
const REST_WITHIN: Duration = Duration::from_secs(1);

/// The body of a request, whose client may pause for a bounded time, and may take a bounded time in all.
pub(crate) struct Upload {
    body: Option<Incoming>,
    /// Whether what nobody has read of it is read away.
    lingers: bool,
    patience: Duration,
    pause: Option<Pin<Box<Sleep>>>,
    /// Cuts it off when it ends.
    cut: Option<BoxFuture<'static, ()>>,
    progress: Progress,
    /// Gone when nothing more of the upload is passed on.
    passing: Option<watch::Sender<()>>,
    /// What its trailers go through.
    clean: fn(&mut HeaderMap),
}

/// Why an upload ended before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stalled {
    #[error("the client sent nothing for too long")]
    Client,
    #[error("the upload took too long")]
    Long,
    #[error("the request was given up, and nothing more of it is sent")]
    Stopped,
    #[error("a newer token came, and the upload was cut off")]
    Superseded,
    #[error(transparent)]
    Broken(#[from] hyper::Error),
}

/// When the last frame of an upload was passed on, whether it failed or was cut, and whether it has ended.
#[derive(Clone)]
pub(crate) struct Progress {
    shared: Arc<Shared>,
    passing: watch::Receiver<()>,
}

struct Shared {
    last: Mutex<Instant>,
    failed: AtomicBool,
    cut: AtomicBool,
    stopped: AtomicBool,
    until: Instant,
}

impl Progress {
    fn new(until: Instant) -> (watch::Sender<()>, Progress) {
        let (sender, passing) = watch::channel(());
        let shared = Shared {
            last: Mutex::new(Instant::now()),
            failed: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            until,
        };
        (sender, Progress { shared: Arc::new(shared), passing })
    }

    pub(crate) fn last(&self) -> Instant {
        *self.shared.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Acquire)
    }

    /// Whether it was dropped before its end, as when the connection to the service breaks.
    pub(crate) fn was_cut(&self) -> bool {
        self.shared.cut.load(Ordering::Acquire)
    }

    /// Until when the request may last.
    pub(crate) fn until(&self) -> Instant {
        self.shared.until
    }

    /// Counts from now on.
    pub(crate) fn note(&self) {
        *self.shared.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether nothing more of the upload is passed on: it is at its end, or was dropped.
    pub(crate) fn has_ended(&self) -> bool {
        self.passing.has_changed().is_err()
    }

    /// Waits until the upload has ended.
    pub(crate) async fn ended(&mut self) {
        while self.passing.changed().await.is_ok() {}
    }

    /// Passes nothing more on from now on.
    pub(crate) fn stop(&self) {
        self.shared.stopped.store(true, Ordering::Release);
    }
}

impl Upload {
    /// Bounds each pause by `patience`, and the whole by `longest`.
    ///
    /// In HTTP/2 an answer before the end of the upload resets the stream, and some clients take that for
    /// the answer. So the rest of a short upload is read away. In HTTP/1 that would ask a client for an
    /// upload that it holds back (`Expect`).
    pub(crate) fn new(
        request: Request<Incoming>,
        patience: Duration,
        longest: Duration,
    ) -> Request<Upload> {
        let lingers = request.version() == Version::HTTP_2;
        let (passing, progress) = Progress::new(Instant::now() + longest);
        let passing = Some(passing);
        request.map(|body| {
            let body = Some(body);
            Upload {
                body,
                lingers,
                patience,
                pause: None,
                cut: None,
                progress,
                passing,
                clean: |_| (),
            }
        })
    }

    /// Passes trailers on as this leaves them.
    pub(crate) fn cleaned(mut self, clean: fn(&mut HeaderMap)) -> Upload {
        self.clean = clean;
        self
    }

    /// Cuts the upload off when this future ends, unless the upload has ended by then.
    pub(crate) fn cut_by(mut self, cut: impl Future<Output = ()> + Send + 'static) -> Upload {
        self.cut = Some(cut.boxed());
        self
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    fn fail(&mut self, why: Stalled) -> Poll<Option<Result<Frame<Bytes>, Stalled>>> {
        self.progress.shared.failed.store(true, Ordering::Release);
        (self.passing, self.cut) = (None, None);
        Poll::Ready(Some(Err(why)))
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Stalled;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Stalled>>> {
        if self.progress.shared.stopped.load(Ordering::Acquire) {
            return self.fail(Stalled::Stopped);
        }
        if self.cut.as_mut().is_some_and(|cut| cut.poll_unpin(context).is_ready()) {
            return self.fail(Stalled::Superseded);
        }
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        match polled {
            Poll::Ready(Some(Ok(mut frame))) if Instant::now() < self.progress.until() => {
                self.pause = None;
                if let Some(trailers) = frame.trailers_mut() {
                    (self.clean)(trailers);
                }
                self.progress.note();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Ok(_))) => self.fail(Stalled::Long),
            Poll::Ready(Some(Err(error))) => self.fail(error.into()),
            Poll::Ready(None) => {
                self.progress.note();
                self.passing = None;
                Poll::Ready(None)
            }
            Poll::Pending => {
                let patience = self.patience;
                let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(patience)));
                match pause.as_mut().poll(context) {
                    Poll::Ready(()) => self.fail(Stalled::Client),
                    Poll::Pending => Poll::Pending,
                }
            }
        }
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
        let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        if self.passing.is_some() {
            self.progress.shared.cut.store(true, Ordering::Release);
        }
        if let (true, Ok(runtime)) = (self.lingers, Handle::try_current()) {
            runtime.spawn(timeout(REST_WITHIN, read_away(body)));
        }
    }
}

async fn read_away(mut body: Incoming) {
    let mut left = REST;
    while left > 0 {
        match std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
            Some(Ok(frame)) => left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len)),
            Some(Err(_)) | None => return,
        }
    }
}
