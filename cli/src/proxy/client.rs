use std::mem::replace;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::Response;
use http::response::Parts;
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::listen::HttpAnswer;

const PIECES: usize = 2;

pub(super) enum Client {
    Waiting(oneshot::Sender<HttpAnswer>),
    Reading(mpsc::Sender<Piece>),
    Gone,
}

/// A piece of an answer, or its end. Without an end it has broken off.
type Piece = Option<Frame<Bytes>>;

impl Client {
    /// Answers it, or cuts it off if it reads another answer.
    pub(super) fn answer(&mut self, answer: HttpAnswer) {
        if let Client::Waiting(client) = replace(self, Client::Gone) {
            let _ = client.send(answer);
        }
    }

    /// Sends the head of an answer, whose body comes piece by piece.
    pub(super) fn begin(&mut self, head: Parts) {
        let (sender, mut pieces) = mpsc::channel::<Piece>(PIECES);
        let body = StreamBody::new(stream::poll_fn(move |context| {
            let broken = "the answer of the service broke off";
            pieces.poll_recv(context).map(|piece| piece.ok_or(broken).transpose())
        }));
        self.answer(Response::from_parts(head, Body::new(body)));
        *self = Client::Reading(sender);
    }

    pub(super) async fn send(&mut self, piece: Piece, patience: Duration) {
        let Client::Reading(pieces) = self else { return };
        if !matches!(timeout(patience, pieces.send(piece)).await, Ok(Ok(()))) {
            *self = Client::Gone;
        }
    }
}
