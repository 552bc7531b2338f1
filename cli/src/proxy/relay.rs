use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fencing::http::FenceBody;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::held::{End, Told, UpstreamBody};
use crate::listen::{Answer, Full};

/// How many pieces of an answer may wait for the client.
const PIECES: usize = 2;

/// The answer as the connection of the client sees it.
pub(super) enum ClientBody {
    Whole(Full),
    Empty,
    Pieces(mpsc::Receiver<Result<Frame<Bytes>, BrokenOff>>),
}

/// The answer of the service broke off.
#[derive(Debug, thiserror::Error)]
#[error("the answer of the service broke off")]
pub(super) struct BrokenOff;

impl ClientBody {
    pub(super) fn whole(answer: Answer) -> Response<ClientBody> {
        answer.map(ClientBody::Whole)
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        match &mut *self {
            ClientBody::Whole(body) => {
                Pin::new(body).poll_frame(context).map_err(|never| match never {})
            }
            ClientBody::Empty => Poll::Ready(None),
            ClientBody::Pieces(pieces) => pieces.poll_recv(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ClientBody::Whole(body) => body.is_end_stream(),
            ClientBody::Empty => true,
            ClientBody::Pieces(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ClientBody::Whole(body) => body.size_hint(),
            ClientBody::Empty => SizeHint::with_exact(0),
            ClientBody::Pieces(_) => SizeHint::default(),
        }
    }
}

/// How long a client may not read, and until when a request may last at all.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub(super) client: Duration,
    pub(super) until: Instant,
}

/// Carries a request to its end, whether its client is there or not. Before it was sent, it ends with
/// its client.
pub(super) async fn carry(
    answering: impl Future<Output = Result<Response<FenceBody<UpstreamBody>>, Infallible>>,
    sent: Arc<AtomicBool>,
    mut client: oneshot::Sender<Response<ClientBody>>,
    patience: Patience,
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
    let (mut parts, body) = response.into_parts();
    let told = parts.extensions.remove::<Told>().unwrap_or_default();
    if body.is_end_stream() {
        // It is no longer in flight when its client hears of it.
        drop(body);
        let _ = client.send(Response::from_parts(parts, ClientBody::Empty));
        return;
    }
    let left = length(&parts.headers);
    let (pieces, waiting) = mpsc::channel(PIECES);
    let heard = client.send(Response::from_parts(parts, ClientBody::Pieces(waiting)));
    let pieces = heard.is_ok().then_some(pieces);
    pump(body, pieces, left, told, patience).await;
}

/// How much the client will read, if that was said.
fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// What came of the answer.
enum Next {
    Frame(Frame<Bytes>),
    /// The answer has ended, and the request has not.
    Told(End),
    End,
}

/// Passes the answer on while its client reads, and then waits for its end.
async fn pump(
    body: FenceBody<UpstreamBody>,
    client: Option<mpsc::Sender<Result<Frame<Bytes>, BrokenOff>>>,
    mut left: Option<u64>,
    told: Told,
    patience: Patience,
) {
    let mut body = pin!(body);
    if let Some(client) = client {
        loop {
            let next = tokio::select! {
                biased;
                () = client.closed() => break,
                next = timeout_at(patience.until, next(body.as_mut(), Some(&told))) => next,
            };
            let piece = match next {
                Ok(Next::Frame(frame)) => Ok(frame),
                Ok(Next::Told(End::Whole)) => break,
                Ok(Next::Told(End::BrokenOff)) | Err(_) => Err(BrokenOff),
                Ok(Next::End) => return,
            };
            let (last, read) = match &piece {
                Ok(frame) => (false, frame.data_ref().map_or(0, Bytes::len)),
                Err(_) => (true, 0),
            };
            let taken = timeout(patience.client, client.send(piece)).await;
            left = left.map(|left| left.saturating_sub(read as u64));
            if last || left == Some(0) || !matches!(taken, Ok(Ok(()))) {
                break;
            }
        }
    }
    // Nobody reads it any more, but the service may be at work. The body bounds its pauses and the whole
    // by itself, and has a quarantine where it breaks off.
    while !matches!(next(body.as_mut(), None).await, Next::End) {}
}

/// Waits for the next frame of the body, or for the end of the answer, if somebody is to be told.
async fn next(mut body: Pin<&mut FenceBody<UpstreamBody>>, told: Option<&Told>) -> Next {
    poll_fn(|context| {
        let polled = body.as_mut().poll_frame(context);
        match told.and_then(Told::get) {
            Some(End::Whole) if polled.is_pending() => return Poll::Ready(Next::Told(End::Whole)),
            Some(End::BrokenOff) => return Poll::Ready(Next::Told(End::BrokenOff)),
            _ => {}
        }
        polled.map(|frame| match frame {
            Some(Ok(frame)) => Next::Frame(frame),
            Some(Err(_)) | None => Next::End,
        })
    })
    .await
}
