use std::future::pending;
use std::mem::replace;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use fencing::http::{Passage, Problem};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, stream};
use http::response::Parts;
use http::{Response, StatusCode, Version};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt, StreamBody};
use hyper_util::client::legacy::ResponseFuture;
use tokio::sync::mpsc;
use tokio::sync::oneshot::{Receiver, Sender, channel};
use tokio::time::{sleep, sleep_until, timeout};

use super::args::ProxyArgs;
use super::{NOT_SENT, headers, refused};
use crate::listen::{Gauged, HttpAnswer, ProblemKind, Progress, UploadState, gauged};
use crate::say;

const PIECES: usize = 2;

/// A request that the fence has admitted, until the service cannot be working on it. When it is dropped, the proxy
/// sends nothing more of the request, and the fence lets newer ones in.
pub(super) struct Flight {
    upload: Progress,
    client: ClientState,
    /// Time limit without progress in either direction: a service that reads is at work.
    patience: Duration,
    /// Ends when the upload continues for too long behind a newer token.
    superseded: BoxFuture<'static, ()>,
    /// Counts the request once it is abandoned.
    held: Option<Gauged<()>>,
    args: Arc<ProxyArgs>,
    passage: Passage,
}

/// The reason why a request may or may not have been executed, and the label that counts it.
struct Doubt {
    problem: ProblemKind,
    why: &'static str,
    cause: &'static str,
}

const BROKEN: Doubt = doubt(StatusCode::BAD_GATEWAY, "the service broke the connection", "broken");
const LATE: Doubt = doubt(StatusCode::GATEWAY_TIMEOUT, "the service did not answer in time", "timeout");
const LONG: Doubt = doubt(StatusCode::GATEWAY_TIMEOUT, "the request took too long in all", "long");
const UPLOAD: Doubt = doubt(StatusCode::REQUEST_TIMEOUT, "the upload broke off", "upload");
const SUPERSEDED: Doubt = Doubt {
    problem: ProblemKind::new(StatusCode::SERVICE_UNAVAILABLE, Problem::SUPERSEDED),
    why: "a newer token came, and the upload was cut off",
    cause: "superseded",
};

const fn doubt(status: StatusCode, why: &'static str, cause: &'static str) -> Doubt {
    Doubt { problem: ProblemKind::new(status, Problem::IN_DOUBT), why, cause }
}

impl Flight {
    pub(super) fn new(args: Arc<ProxyArgs>, upload: Progress, passage: Passage) -> (Flight, Receiver<HttpAnswer>) {
        let (client, answer) = channel();
        let (progress, grace) = (upload.clone(), args.service.upload_grace);
        let overtaken = passage.overtaken();
        let superseded = async move {
            overtaken.await;
            sleep(grace).await;
            if progress.state() != UploadState::Sending {
                pending().await
            }
        };
        let superseded = superseded.boxed();
        let (client, patience) = (ClientState::Waiting(client), args.service.upstream_timeout);
        (Flight { upload, client, patience, superseded, held: None, args, passage }, answer)
    }

    /// Passes the answer on, and lasts until the service has the whole request and has sent its whole answer. If either
    /// breaks off, or nothing moves for the quarantine, or the request takes too long, the proxy cuts its connection.
    /// The end of a connection says nothing about the work behind it: then it is returned, for the quarantine.
    pub(super) async fn run(mut self, answer: ResponseFuture) -> Option<Flight> {
        let doubt = self.complete(answer).await.err()?;
        self.give_up(doubt);
        self.upload.end(UploadState::Failed);
        Some(self).filter(|flight| flight.passage.is_fenced())
    }

    async fn complete(&mut self, answer: ResponseFuture) -> Result<(), Doubt> {
        let answer = match self.next(answer).await? {
            Ok(answer) => answer,
            Err(error) if error.is_connect() => {
                refused("no_service");
                tracing::warn!(error = %say::chain(&error), "the service cannot be reached");
                let why = "the service behind the proxy cannot be reached; nothing was sent";
                self.client.answer(NOT_SENT.because(why));
                return Ok(());
            }
            Err(error) => {
                tracing::warn!(error = %say::chain(&error), "no answer from the service");
                let upload = self.upload.state() == UploadState::Failed;
                return Err(if upload { UPLOAD } else { BROKEN });
            }
        };
        let (mut head, mut body) = answer.into_parts();
        if head.status.is_informational() {
            // An upgrade without a request for one: the service speaks another protocol from here on.
            return Err(BROKEN);
        }
        let closes = head.version < Version::HTTP_2 && headers::closes(&head.headers);
        headers::answered(&mut head.headers, head.version);
        match body.is_end_stream() {
            true => self.client.answer(Response::from_parts(head, Body::empty())),
            false => self.client.begin(head),
        }
        let patience = self.args.listen.bounds.client_timeout;
        while let Some(frame) = self.next(body.frame()).await? {
            let broken = |error| {
                tracing::warn!(%error, "the answer of the service broke off");
                BROKEN
            };
            self.client.send(Some(frame.map_err(broken)?), patience).await;
        }
        drop(body);
        self.client.send(None, patience).await;
        self.sent(closes).await
    }

    /// Waits for something of the service. If nothing moves for too long, the client is answered, and the request held.
    async fn next<T>(&mut self, coming: impl Future<Output = T>) -> Result<T, Doubt> {
        let mut coming = pin!(coming);
        self.upload.note();
        loop {
            let has_answer = !matches!(self.client, ClientState::Waiting(_));
            tokio::select! {
                biased;
                () = &mut self.superseded => return Err(SUPERSEDED),
                // Until then the upload is bounded, and the wait for the answer. The fence may have held it for long.
                () = sleep_until(self.upload.until), if has_answer => return Err(LONG),
                come = &mut coming => return Ok(come),
                () = self.upload.stalled(self.patience) => {}
            }
            if self.held.is_some() || !self.passage.is_fenced() {
                return Err(LATE);
            }
            self.give_up(LATE);
        }
    }

    /// Waits until the service has the rest of a request that it has answered. What the proxy still sends of an older
    /// request must not come behind a newer one. A service that `closes` the connection wants no more of the upload.
    async fn sent(&mut self, closes: bool) -> Result<(), Doubt> {
        tokio::select! {
            biased;
            () = self.upload.ended() => {}
            () = &mut self.superseded => return Err(SUPERSEDED),
            () = sleep_until(self.upload.until) => {}
            () = self.upload.stalled(self.patience) => {}
        }
        match self.upload.state() {
            UploadState::Sent => Ok(()),
            UploadState::Dropped if closes => Ok(()),
            _ => Err(UPLOAD),
        }
    }

    fn give_up(&mut self, Doubt { problem, why, cause }: Doubt) {
        if self.held.is_some() {
            return;
        }
        tracing::warn!(cause, "a request was abandoned: {why}");
        if self.passage.is_fenced() {
            metrics::counter!("fencing_proxy_given_up_total", "cause" => cause).increment(1);
            self.held = Some(gauged("fencing_proxy_held", ()));
        }
        self.patience = self.args.service.quarantine();
        self.upload.note();
        let doubt = "the request may or may not have been carried out; read before you try again";
        self.client.answer(problem.because(format_args!("{why}; {doubt}")));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.upload.end(UploadState::Failed);
    }
}

enum ClientState {
    Waiting(Sender<HttpAnswer>),
    Reading(mpsc::Sender<Piece>),
    Gone,
}

/// A piece of an answer, or its end. Without an end it has broken off.
type Piece = Option<Frame<Bytes>>;

impl ClientState {
    /// Answers it, or cuts it off if it reads another answer.
    fn answer(&mut self, answer: impl IntoResponse) {
        if let ClientState::Waiting(client) = replace(self, ClientState::Gone) {
            let _ = client.send(answer.into_response());
        }
    }

    /// Sends the head of an answer, whose body comes piece by piece.
    fn begin(&mut self, head: Parts) {
        let (sender, mut pieces) = mpsc::channel::<Piece>(PIECES);
        let body = StreamBody::new(stream::poll_fn(move |context| {
            let broken = "the answer of the service broke off";
            pieces.poll_recv(context).map(|piece| piece.ok_or(broken).transpose())
        }));
        self.answer(Response::from_parts(head, Body::new(body)));
        *self = ClientState::Reading(sender);
    }

    async fn send(&mut self, piece: Piece, patience: Duration) {
        let ClientState::Reading(pieces) = self else { return };
        if !matches!(timeout(patience, pieces.send(piece)).await, Ok(Ok(()))) {
            *self = ClientState::Gone;
        }
    }
}
