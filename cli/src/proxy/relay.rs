use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use fencing::http::FenceBody;
use futures_util::stream;
use http::Response;
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::flight::{AtWork, Flight, Leftover};

/// How many pieces of an answer may wait for the client.
const PIECES: usize = 2;
const PAUSED: &str = "timeout";
const LONG: &str = "long";

/// Carries a request to its end, whether its client is there or not. Before it was sent, it ends with
/// its client. `bodies` has the body for the client, if the request came as far as the service.
pub(super) async fn carry(
    answering: impl Future<Output = Result<Response<FenceBody<AtWork>>, Infallible>>,
    sent: Arc<AtomicBool>,
    mut bodies: mpsc::Receiver<Body>,
    mut client: oneshot::Sender<Response<Body>>,
) {
    let mut answering = pin!(answering);
    let answered = poll_fn(|context| {
        if let Poll::Ready(Ok(response)) = answering.as_mut().poll(context) {
            return Poll::Ready(Some(response));
        }
        match client.poll_closed(context) {
            Poll::Ready(()) if !sent.load(Ordering::Relaxed) => Poll::Ready(None),
            _ => Poll::Pending,
        }
    });
    let Some(response) = answered.await else { return };
    let Ok(body) = bodies.try_recv() else {
        let _ = client.send(response.map(Body::new));
        return;
    };
    let (parts, at_work) = response.into_parts();
    // It is no longer in flight when its client has the answer.
    let at_work = Some(at_work).filter(|at_work| !at_work.is_end_stream());
    let _ = client.send(Response::from_parts(parts, body));
    if let Some(at_work) = at_work {
        let _ = at_work.collect().await;
    }
}

/// How long the service may pause in its answer, how long a client may not read, and until when a request may last
/// at all.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub(super) service: Duration,
    pub(super) client: Duration,
    pub(super) until: Instant,
}

/// The client of an answer, which may have gone away.
pub(super) struct Client {
    pieces: Option<mpsc::Sender<Piece>>,
    patience: Duration,
}

/// A piece of an answer, or its end. Without an end it has broken off.
type Piece = Option<Frame<Bytes>>;

/// The answer of the service broke off.
#[derive(Debug, thiserror::Error)]
#[error("the answer of the service broke off")]
struct BrokenOff;

impl Client {
    /// Returns the client, and the body that it reads.
    pub(super) fn new(patience: Duration) -> (Client, Body) {
        let (sender, mut pieces) = mpsc::channel::<Piece>(PIECES);
        let body = StreamBody::new(stream::poll_fn(move |context| {
            pieces.poll_recv(context).map(|piece| piece.ok_or(BrokenOff).transpose())
        }));
        (Client { pieces: Some(sender), patience }, Body::new(body))
    }

    async fn send(&mut self, piece: Piece) {
        let Some(pieces) = &self.pieces else { return };
        if !matches!(timeout(self.patience, pieces.send(piece)).await, Ok(Ok(()))) {
            self.pieces = None;
        }
    }

    /// Waits until the client goes away.
    async fn leave(&mut self) {
        match &self.pieces {
            Some(pieces) => pieces.closed().await,
            None => pending().await,
        }
        self.pieces = None;
    }
}

/// Passes an answer on while its client reads, and lasts until nothing of the request can be at work in the
/// service. A request that the fence has not admitted has no flight.
pub(super) async fn pass_on(
    mut body: Incoming,
    mut client: Client,
    flight: Option<Flight>,
    patience: Patience,
) {
    let cause = loop {
        if patience.until <= Instant::now() {
            tracing::warn!("a request took too long in all, and was given up");
            break LONG;
        }
        let pause = patience.until.min(Instant::now() + patience.service);
        let frame = tokio::select! {
            biased;
            () = client.leave() => continue,
            frame = timeout_at(pause, body.frame()) => frame,
        };
        match frame {
            Ok(Some(Ok(frame))) => client.send(Some(frame)).await,
            Ok(Some(Err(error))) => {
                tracing::warn!(%error, "the answer of the service broke off");
                break "broken";
            }
            Ok(None) => {
                drop(body);
                client.send(None).await;
                // The client has the whole answer. The service may not have the whole request.
                if let Some(flight) = flight.filter(|flight| !flight.is_sent()) {
                    flight.upload(patience.service).await;
                }
                return;
            }
            Err(_) if patience.until <= Instant::now() => {}
            Err(_) => {
                tracing::warn!("the service paused for too long in its answer");
                break PAUSED;
            }
        }
    };
    drop(client);
    let Some(flight) = flight else { return };
    let leftover = match cause {
        PAUSED => Leftover::HttpAnswer(Response::new(body)),
        _ => {
            drop(body);
            Leftover::Unknown
        }
    };
    flight.hold(std::future::ready(leftover), cause).await;
}
