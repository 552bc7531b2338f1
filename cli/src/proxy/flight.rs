use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::CONNECTION;
use http::{Response, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{sleep, timeout_at};

use super::behind_fence::Admission;
use super::counted::Counted;
use crate::listen::{Progress, UploadState};

/// A request that the fence has admitted, and the quarantine behind it. When it is dropped, the proxy
/// sends nothing more of the request, and the fence lets newer ones in.
pub(super) struct Flight {
    upload: Progress,
    quarantine: Duration,
    /// Whether the service has said that it closes the connection behind its answer.
    closes: bool,
    _admission: Admission,
}

/// What is left of a request that was given up.
pub(super) enum Leftover {
    /// An answer, which has an end.
    Answer(Response<Incoming>),
    /// Nothing: the service never saw it.
    NotSent,
    /// No answer can come any more, and the service may be at work.
    Unknown,
}

impl Flight {
    pub(super) fn new(quarantine: Duration, upload: Progress, admission: Admission) -> Flight {
        Flight { upload, quarantine, closes: false, _admission: admission }
    }

    /// Takes note of what the head of the answer says about the connection. Where it says that it closes,
    /// the service wants no more of the upload.
    pub(super) fn read_head<B>(&mut self, answer: &Response<B>) {
        let mut named = answer.headers().get_all(CONNECTION).iter();
        self.closes |= answer.version() < Version::HTTP_2
            && named.any(|value| {
                let names = value.to_str().unwrap_or_default().split(',');
                names.map(str::trim).any(|name| name.eq_ignore_ascii_case("close"))
            });
    }

    /// Whether all of it was sent, or as much as the service wanted.
    pub(super) fn is_sent(&self) -> bool {
        match self.upload.state() {
            UploadState::Sent => true,
            UploadState::Dropped => self.closes,
            UploadState::Sending | UploadState::Failed => false,
        }
    }

    /// Waits until the service has the rest of a request that it has answered. What the proxy still sends
    /// of an older request must not come behind a newer one.
    pub(super) async fn upload(self, patience: Duration) {
        let sent = timeout_at(self.upload.until, self.sent(patience)).await;
        if sent != Ok(true) {
            self.upload.stop();
            tracing::warn!("the upload of a request that was answered broke off");
            self.hold(std::future::ready(Leftover::Unknown), "upload").await;
        }
    }

    /// Gives the request up. The future lasts until the service has sent its whole answer, and has the whole
    /// request. If either breaks off, or nothing moves for the quarantine, or the request takes too long, the proxy
    /// cuts its connection. The end of a connection says nothing about the work behind it: then the quarantine
    /// begins.
    pub(super) fn hold(
        mut self,
        answered: impl Future<Output = Leftover> + Send + 'static,
        cause: &'static str,
    ) -> BoxFuture<'static, ()> {
        metrics::counter!("fencing_proxy_given_up_total", "cause" => cause).increment(1);
        let counted = Counted::new("fencing_proxy_held", ());
        let held = async move {
            let _counted = counted;
            // After a timeout the answer is dropped here, and its connection with it.
            let completed = timeout_at(self.upload.until, self.completed(answered)).await;
            if completed != Ok(true) {
                self.upload.stop();
                sleep(self.quarantine).await;
            }
        };
        held.boxed()
    }

    /// Waits for the ends of the answer and of the upload, and returns whether both are complete. Counts from the last
    /// frame in either direction: a service that reads is at work.
    async fn completed(&mut self, answered: impl Future<Output = Leftover>) -> bool {
        self.upload.note();
        let leftover = tokio::select! {
            biased;
            leftover = answered => leftover,
            () = self.upload.stalled(self.quarantine) => return false,
        };
        match leftover {
            Leftover::Answer(answer) => {
                self.read_head(&answer);
                self.answered(answer.into_body()).await && self.sent(self.quarantine).await
            }
            Leftover::NotSent => true,
            Leftover::Unknown => false,
        }
    }

    /// Reads an answer to its end, and forgets it. It may pause for as long as the quarantine lasts, while the
    /// upload does so, too.
    async fn answered(&self, mut body: Incoming) -> bool {
        loop {
            self.upload.note();
            tokio::select! {
                biased;
                frame = body.frame() => match frame {
                    Some(Ok(_)) => {}
                    end => return end.is_none(),
                },
                () = self.upload.stalled(self.quarantine) => return false,
            }
        }
    }

    /// Waits for the end of the upload, or for this long without progress. Returns whether all of it was sent.
    async fn sent(&self, patience: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.upload.ended() => self.is_sent(),
            () = self.upload.stalled(patience) => false,
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.upload.stop();
    }
}
