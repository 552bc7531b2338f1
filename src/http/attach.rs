use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use http::{HeaderName, HeaderValue, Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use tower_layer::Layer;
use tower_service::Service;

use super::header::sequencer_value;
use super::{FenceBody, HEADER, Problem, SEQUENCER};
use crate::fence::Stale;
use crate::sequencer::HeldToken;

/// The most bytes of a refusal that are read.
const MAX_REFUSAL: usize = 64 * 1024;

/// Client side: gives each request the token of a lease, sends none when the lease is over, and turns a
/// refusal of the fence into an [`AttachError::Refused`].
///
/// ```
/// use std::sync::Arc;
/// use fencing::http::AttachLayer;
/// use fencing::Lease;
/// use tower_layer::Layer; // the same as tower::Layer
///
/// # fn service<S: Clone>(lease: Arc<Lease>, client: S) {
/// let client = AttachLayer::new(lease).layer(client); // a hyper client, tonic's channel, ...
/// # }
/// ```
///
/// The layer keeps the lease alive: even if you drop it elsewhere, it is renewed for as long as the layer or a client
/// below it lives. Keep a [`Sequencer`](crate::sequencer::Sequencer) there where that is too long.
///
/// **Order.** Put a limit of requests above this layer, not below it. A client below a limit is ready only when it has
/// a permit, and keeps it until it is called or dropped. An ended lease fails before it takes a permit; if the lease
/// ends between `ready` and the call, the permit stays taken until you drop the client.
///
/// **Fencing.** It checks the lease when it is called. A request in flight when the lease ends may
/// still arrive; the server's fence refuses it once it has seen a newer token.
#[derive(Clone, derive_more::Debug)]
#[must_use]
pub struct AttachLayer {
    #[debug(skip)]
    lease: Arc<dyn HeldToken>,
    header: HeaderName,
    with_resource: bool,
}

impl AttachLayer {
    /// Sends every request under this lease.
    pub fn new(lease: impl HeldToken + 'static) -> AttachLayer {
        AttachLayer { lease: Arc::new(lease), header: HEADER, with_resource: false }
    }

    /// Sets the header that carries the token, where the server's layer
    /// [names another](crate::http::FenceLayer::header). Default: `fencing-token`.
    pub fn header(self, header: HeaderName) -> AttachLayer {
        AttachLayer { header, ..self }
    }

    /// Sends the resource of the lease as well, in the header [`SEQUENCER`]. A server whose layer names
    /// another resource then refuses the request. Use it if both sides use the same names.
    pub fn with_resource(self) -> AttachLayer {
        AttachLayer { with_resource: true, ..self }
    }
}

impl<S> Layer<S> for AttachLayer {
    type Service = AttachService<S>;

    fn layer(&self, inner: S) -> AttachService<S> {
        AttachService { inner, layer: self.clone() }
    }
}

/// A client below an [`AttachLayer`].
#[derive(Debug, Clone)]
pub struct AttachService<S> {
    inner: S,
    layer: AttachLayer,
}

impl<S, B, R> Service<Request<B>> for AttachService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    R: Body + Send + 'static,
    R::Data: From<Bytes> + Send,
    R::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<FenceBody<R>>;
    type Error = AttachError<S::Error>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // Nothing would be sent: a limit below this gives its place to another client.
        if self.layer.lease.held().is_none() {
            return Poll::Ready(Err(AttachError::LeaseOver));
        }
        self.inner.poll_ready(context).map_err(AttachError::Service)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let AttachLayer { lease, header, with_resource } = &self.layer;
        let Some(sequencer) = lease.held() else { return ready(Err(AttachError::LeaseOver)).boxed() };
        let headers = request.headers_mut();
        headers.insert(header.clone(), HeaderValue::from(sequencer.token.get()));
        if *with_resource {
            headers.insert(SEQUENCER, sequencer_value(&sequencer));
        }
        let sent = self.inner.call(request);
        async move { read(sent.await.map_err(AttachError::Service)?).await }.boxed()
    }
}

/// Separates the refusals of a fence from all other responses. One over gRPC passes: the client reads its status
/// there, and would call an error of this layer UNKNOWN, which says that the write may be stored.
async fn read<R, E>(response: Response<R>) -> Result<Response<FenceBody<R>>, AttachError<E>>
where
    R: Body,
    R::Error: Into<Box<dyn Error + Send + Sync>>,
{
    if response.status().is_success() || !Problem::is_in(response.headers()) {
        return Ok(response.map(FenceBody::passing));
    }
    let (parts, body) = response.into_parts();
    let text = Limited::new(body, MAX_REFUSAL).collect().await.map_err(AttachError::Response)?;
    let text = text.to_bytes();
    match Problem::read(&parts.headers, &text) {
        Ok(problem) if problem.kind.starts_with(Problem::OURS) => Err(AttachError::Refused(Box::new(problem))),
        _ => Ok(Response::from_parts(parts, FenceBody::refusal(Some(text).filter(|text| !text.is_empty())))),
    }
}

/// Why a request under a lease failed. `E` is the error of the service that sends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError<E> {
    /// The lease has ended. Nothing was sent.
    #[error("the lease has ended: the request was not sent")]
    LeaseOver,
    /// The server's fence refused the request, or its outcome is in doubt: see [`Problem::kind`]. With
    /// [`Problem::SUPERSEDED`], [`Problem::IN_DOUBT`] and [`Problem::UNAVAILABLE`] the write may be stored. A refusal
    /// over gRPC is a response instead: its client gets the status, and [`Problem::read_grpc`] reads the rest.
    #[error("refused by the fence: {}", .0.detail)]
    Refused(Box<Problem>),
    /// The problem details in the response break off, or are longer than 64 KiB.
    #[error("the refusal cannot be read: {0}")]
    Response(#[source] Box<dyn Error + Send + Sync>),
    /// The sending service failed. Its error says whether the request may have arrived.
    #[error(transparent)]
    Service(E),
}

impl<E> AttachError<E> {
    /// Returns the refusal of a stale token, if it is one and the server has sent every part of it.
    pub fn stale(&self) -> Option<Stale> {
        if let AttachError::Refused(problem) = self { problem.stale() } else { None }
    }
}
