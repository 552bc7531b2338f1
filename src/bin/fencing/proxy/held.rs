use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

use super::counted::Counted;
use crate::listen::Progress;

/// What a request that was given up still waits for. The gauge counts those.
pub(super) type Hold = BoxFuture<'static, ()>;

/// What is left of a request that was given up.
pub(super) enum Rest {
    /// An answer, which has an end.
    Answer(Incoming),
    /// Nothing: the service never saw it.
    NotSent,
    /// No answer can come any more, and the service may be at work.
    Unknown,
}

/// A request that the fence has admitted, and the quarantine behind it. When it is dropped, the proxy
/// sends nothing more of the request.
pub(super) struct Flight {
    quarantine: Duration,
    upload: Progress,
}

impl Flight {
    pub(super) fn new(quarantine: Duration, upload: Progress) -> Flight {
        Flight { quarantine, upload }
    }

    /// Whether all of it was sent, or as much as the service wanted.
    fn is_sent(&self) -> bool {
        self.upload.has_ended() && !self.upload.has_failed()
    }

    /// Waits until nothing more is sent, or nothing was for this long.
    async fn sent(&mut self, patience: Duration) -> Come {
        let mut upload = self.upload.clone();
        let silent = tokio::select! {
            biased;
            () = upload.ended() => false,
            () = no_progress(&self.upload, patience) => true,
        };
        match silent {
            true => Come::Silence,
            false if self.upload.has_failed() => Come::Broken,
            false => Come::Whole,
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.upload.stop();
    }
}

/// Waits until nothing has been sent for this long.
pub(super) async fn no_progress(upload: &Progress, patience: Duration) {
    loop {
        let due = upload.last() + patience;
        if due <= Instant::now() {
            return;
        }
        sleep_until(due).await;
    }
}

/// What has come.
enum Come {
    Whole,
    Broken,
    Silence,
}

/// Waits until the service has answered as a whole, and has the whole request, or until there was
/// nothing of either for the quarantine. What broke off says nothing about the work behind it: then
/// the quarantine begins.
pub(super) fn hold(
    answered: impl Future<Output = Rest> + Send + 'static,
    mut flight: Flight,
    cause: &'static str,
) -> Hold {
    metrics::counter!("fencing_proxy_given_up_total", "cause" => cause).increment(1);
    let counted = Counted::new("fencing_proxy_held", ());
    Box::pin(async move {
        let _counted = counted;
        let quarantine = flight.quarantine;
        let answer = match timeout(quarantine, answered).await {
            Ok(Rest::Answer(mut body)) => read_all(&mut body, quarantine).await,
            Ok(Rest::NotSent) => return,
            Ok(Rest::Unknown) => Come::Broken,
            Err(_) => Come::Silence,
        };
        let come = match answer {
            Come::Whole => flight.sent(quarantine).await,
            other => other,
        };
        if matches!(come, Come::Broken) {
            flight.upload.stop();
            sleep(quarantine).await;
        }
    })
}

/// Reads a body to its end, and forgets it. It may pause for so long.
async fn read_all(body: &mut Incoming, patience: Duration) -> Come {
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
        match timeout(patience, frame).await {
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(_))) => return Come::Broken,
            Ok(None) => return Come::Whole,
            Err(_) => return Come::Silence,
        }
    }
}

/// Waits until the service has the rest of a request that it has answered. What the proxy still sends
/// of an older request must not come behind a newer one.
fn uploading(mut flight: Flight, patience: Duration) -> Hold {
    Box::pin(async move {
        if !matches!(flight.sent(patience).await, Come::Whole) {
            flight.upload.stop();
            tracing::warn!("the upload of a request that was answered broke off");
            hold(std::future::ready(Rest::Unknown), flight, "upload").await;
        }
    })
}

/// The body of an answer as the fence sees it. It ends when nothing of the request can be at work in
/// the service any more, however early the client has its answer: until then the request is in flight.
pub(super) struct UpstreamBody {
    stage: Stage,
    /// What the client is to hear.
    told: Told,
}

/// How the answer of the service has ended, while the request may still be at work.
#[derive(Clone, Default)]
pub(super) struct Told(Arc<OnceLock<End>>);

/// The end of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Whole,
    BrokenOff,
}

impl Told {
    pub(super) fn get(&self) -> Option<End> {
        self.0.get().copied()
    }

    fn set(&self, end: End) {
        let _ = self.0.set(end);
    }
}

enum Stage {
    /// The answer of the service, which may pause for a bounded time. There is no flight where the
    /// fence has not admitted the request.
    Answer {
        body: Incoming,
        patience: Duration,
        pause: Option<Pin<Box<Sleep>>>,
        flight: Option<Flight>,
    },
    /// An answer of the proxy's own, and what the request still waits for.
    Own { text: Option<Bytes>, hold: Option<Hold> },
}

impl UpstreamBody {
    pub(super) fn answer(
        body: Incoming,
        patience: Duration,
        flight: Option<Flight>,
    ) -> UpstreamBody {
        let stage = Stage::Answer { body, patience, pause: None, flight };
        UpstreamBody { stage, told: Told::default() }
    }

    pub(super) fn own(text: Bytes, hold: Option<Hold>) -> UpstreamBody {
        UpstreamBody { stage: Stage::Own { text: Some(text), hold }, told: Told::default() }
    }

    pub(super) fn told(&self) -> Told {
        self.told.clone()
    }

    /// Takes the answer away from the client, and waits for the rest of the request.
    fn break_off(&mut self, cause: &'static str) {
        self.told.set(End::BrokenOff);
        let none = Stage::Own { text: None, hold: None };
        let Stage::Answer { body, flight, .. } = std::mem::replace(&mut self.stage, none) else {
            return;
        };
        let Some(flight) = flight else { return };
        let rest = if cause == PAUSED { Rest::Answer(body) } else { Rest::Unknown };
        let hold = hold(std::future::ready(rest), flight, cause);
        self.stage = Stage::Own { text: None, hold: Some(hold) };
    }

    /// The client has the whole answer. The service may not have the whole request.
    fn end(&mut self) {
        self.told.set(End::Whole);
        let none = Stage::Own { text: None, hold: None };
        if let Stage::Answer { patience, flight: Some(flight), .. } =
            std::mem::replace(&mut self.stage, none)
            && !flight.is_sent()
        {
            let hold = uploading(flight, patience);
            self.stage = Stage::Own { text: None, hold: Some(hold) };
        }
    }
}

const PAUSED: &str = "timeout";

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            match &mut self.stage {
                Stage::Own { text, hold } => {
                    if let Some(text) = text.take() {
                        return Poll::Ready(Some(Ok(Frame::data(text))));
                    }
                    if let Some(waiting) = hold {
                        ready!(waiting.as_mut().poll(context));
                        *hold = None;
                    }
                    return Poll::Ready(None);
                }
                Stage::Answer { body, patience, pause, .. } => {
                    match Pin::new(body).poll_frame(context) {
                        Poll::Ready(Some(Ok(frame))) => {
                            *pause = None;
                            return Poll::Ready(Some(Ok(frame)));
                        }
                        Poll::Ready(Some(Err(error))) => {
                            tracing::warn!(%error, "the answer of the service broke off");
                            self.break_off("broken");
                        }
                        Poll::Ready(None) => self.end(),
                        Poll::Pending => {
                            let patience = *patience;
                            let pause = pause.get_or_insert_with(|| Box::pin(sleep(patience)));
                            ready!(pause.as_mut().poll(context));
                            tracing::warn!("the service paused for too long in its answer");
                            self.break_off(PAUSED);
                        }
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.stage {
            Stage::Answer { body, flight, .. } => {
                body.is_end_stream() && flight.as_ref().is_none_or(Flight::is_sent)
            }
            Stage::Own { text, hold } => text.is_none() && hold.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.stage {
            Stage::Answer { body, .. } => body.size_hint(),
            Stage::Own { text, .. } => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
        }
    }
}
