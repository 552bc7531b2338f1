use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::CONNECTION;
use http::{Response, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::counted::Counted;
use crate::listen::Progress;

/// What a request that was given up still waits for. The gauge counts those.
pub(super) type Hold = BoxFuture<'static, ()>;

/// What is left of a request that was given up.
pub(super) enum Rest {
    /// An answer, which has an end.
    Answer(Response<Incoming>),
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
    /// Whether the service has said that it closes the connection behind its answer.
    closes: bool,
}

impl Flight {
    pub(super) fn new(quarantine: Duration, upload: Progress) -> Flight {
        Flight { quarantine, upload, closes: false }
    }

    /// Takes note of what the head of the answer says about the connection. Where it says that it closes,
    /// the service wants no more of the upload.
    pub(super) fn hear<B>(&mut self, answer: &Response<B>) {
        let mut named = answer.headers().get_all(CONNECTION).iter();
        self.closes |= answer.version() < Version::HTTP_2
            && named.any(|value| {
                let names = value.to_str().unwrap_or_default().split(',');
                names.map(str::trim).any(|name| name.eq_ignore_ascii_case("close"))
            });
    }

    /// Whether it ended before its end, and not because the service wanted no more.
    fn is_broken(&self) -> bool {
        self.upload.has_failed() || (self.upload.was_cut() && !self.closes)
    }

    /// Whether all of it was sent, or as much as the service wanted.
    fn is_sent(&self) -> bool {
        self.upload.has_ended() && !self.is_broken()
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
            false if self.is_broken() => Come::Broken,
            false => Come::Whole,
        }
    }

    /// Waits for the answer and for the end of the upload. Counts from the last thing that has moved, in
    /// either direction: a service that reads is at work.
    async fn come(&mut self, answered: impl Future<Output = Rest>) -> Come {
        let quarantine = self.quarantine;
        self.upload.note();
        let rest = tokio::select! {
            biased;
            rest = answered => rest,
            () = no_progress(&self.upload, quarantine) => return Come::Silence,
        };
        match rest {
            Rest::Answer(answer) => {
                self.hear(&answer);
                match read_all(&mut answer.into_body(), &self.upload, quarantine).await {
                    Come::Whole => self.sent(quarantine).await,
                    other => other,
                }
            }
            Rest::NotSent => Come::Whole,
            Rest::Unknown => Come::Broken,
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

/// Waits until the service has answered as a whole, and has the whole request. Where that breaks off, or
/// nothing of either moves for the quarantine, or the request takes too long, the proxy cuts its
/// connection. An end of the connection says nothing about the work behind it: then the quarantine begins.
pub(super) fn hold(
    answered: impl Future<Output = Rest> + Send + 'static,
    mut flight: Flight,
    cause: &'static str,
) -> Hold {
    metrics::counter!("fencing_proxy_given_up_total", "cause" => cause).increment(1);
    let counted = Counted::new("fencing_proxy_held", ());
    Box::pin(async move {
        let _counted = counted;
        let (quarantine, until) = (flight.quarantine, flight.upload.until());
        // What is not waited for any more is dropped here, and its connection with it.
        let come = tokio::select! {
            biased;
            come = flight.come(answered) => come,
            () = sleep_until(until) => Come::Silence,
        };
        if !matches!(come, Come::Whole) {
            flight.upload.stop();
            sleep(quarantine).await;
        }
    })
}

/// Reads a body to its end, and forgets it. It may pause for so long while the upload does so, too.
async fn read_all(body: &mut Incoming, upload: &Progress, patience: Duration) -> Come {
    loop {
        upload.note();
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
        tokio::select! {
            biased;
            frame = frame => match frame {
                Some(Ok(_)) => {}
                Some(Err(_)) => return Come::Broken,
                None => return Come::Whole,
            },
            () = no_progress(upload, patience) => return Come::Silence,
        }
    }
}

/// Waits until the service has the rest of a request that it has answered. What the proxy still sends
/// of an older request must not come behind a newer one.
fn uploading(mut flight: Flight, patience: Duration) -> Hold {
    Box::pin(async move {
        let until = flight.upload.until();
        let sent = tokio::select! {
            biased;
            come = flight.sent(patience) => matches!(come, Come::Whole),
            () = sleep_until(until) => false,
        };
        if !sent {
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
        until: Instant,
        flight: Option<Flight>,
    },
    /// An answer of the proxy's own, and what the request still waits for.
    Own { text: Option<Bytes>, hold: Option<Hold> },
}

impl UpstreamBody {
    pub(super) fn answer(
        body: Incoming,
        patience: Duration,
        until: Instant,
        flight: Option<Flight>,
    ) -> UpstreamBody {
        let stage = Stage::Answer { body, patience, pause: None, until, flight };
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
        let rest = if cause == PAUSED { Rest::Answer(Response::new(body)) } else { Rest::Unknown };
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
const LONG: &str = "long";

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
                Stage::Answer { until, .. } if *until <= Instant::now() => {
                    tracing::warn!("a request took too long in all, and was given up");
                    self.break_off(LONG);
                }
                Stage::Answer { body, patience, pause, until, .. } => {
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
                            let (patience, until) = (*patience, *until);
                            let pause = pause.get_or_insert_with(|| {
                                Box::pin(sleep_until(until.min(Instant::now() + patience)))
                            });
                            ready!(pause.as_mut().poll(context));
                            if until <= Instant::now() {
                                continue;
                            }
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
