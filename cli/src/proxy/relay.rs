use std::future::{pending, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::flight::{Flight, Leftover};

/// How many pieces of an answer may wait for the client.
const PIECES: usize = 2;

/// The client of an answer, which may have gone away.
pub(super) struct Client {
    pieces: Option<mpsc::Sender<Piece>>,
    patience: Duration,
}

/// A piece of an answer, or its end. Without an end it has broken off.
type Piece = Option<Frame<Bytes>>;

impl Client {
    /// Returns the client, and the body that it reads.
    pub(super) fn new(patience: Duration) -> (Client, Body) {
        let (sender, mut pieces) = mpsc::channel::<Piece>(PIECES);
        let body = StreamBody::new(stream::poll_fn(move |context| {
            let broken = "the answer of the service broke off";
            pieces.poll_recv(context).map(|piece| piece.ok_or(broken).transpose())
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
/// service, which may pause for `patience`. A request that the fence has not admitted has no flight.
pub(super) async fn pass_on(
    mut body: Incoming,
    mut client: Client,
    flight: Option<Flight>,
    patience: Duration,
    until: Instant,
) {
    let (leftover, cause) = loop {
        let frame = tokio::select! {
            biased;
            () = client.leave() => continue,
            frame = timeout_at(until.min(Instant::now() + patience), body.frame()) => frame,
        };
        match frame {
            Ok(Some(Ok(_))) | Err(_) if until <= Instant::now() => {
                tracing::warn!("a request took too long in all, and was given up");
                break (Leftover::Unknown, "long");
            }
            Ok(Some(Ok(frame))) => client.send(Some(frame)).await,
            Ok(Some(Err(error))) => {
                tracing::warn!(%error, "the answer of the service broke off");
                break (Leftover::Unknown, "broken");
            }
            Ok(None) => {
                drop(body);
                client.send(None).await;
                // The client has the whole answer. The service may not have the whole request.
                if let Some(flight) = flight.filter(|flight| !flight.is_sent()) {
                    flight.upload(patience).await;
                }
                return;
            }
            Err(_) => {
                tracing::warn!("the service paused for too long in its answer");
                break (Leftover::Answer(Response::new(body)), "timeout");
            }
        }
    };
    drop(client);
    if let Some(flight) = flight {
        flight.hold(ready(leftover), cause).await;
    }
}
