use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::answer::{AnswerStyle, is_grpc};
use super::service::take_ready;
use super::{FenceBody, PathError, Refusal, Resources};

/// Names the resources of a request by an async closure, which may read its body or ask a database. Put
/// it above a [`FenceLayer`](super::FenceLayer) whose own closure is [`named`].
///
/// The closure takes the whole request, and returns it with the name:
///
/// ```
/// use axum::body::{Body, to_bytes};
/// use axum::extract::Request;
/// use fencing::fence::MemoryMarks;
/// use fencing::http::{self, FenceLayer, NameLayer, Refusal};
/// use fencing::{Fence, Resource};
///
/// async fn in_the_body(request: Request) -> Result<(Request, Resource), Refusal> {
///     let (parts, body) = request.into_parts();
///     let body = to_bytes(body, 64 * 1024).await.map_err(Refusal::unnamed)?;
///     let name = std::str::from_utf8(&body).map_err(Refusal::unnamed)?;
///     let resource = Resource::new(name.trim()).map_err(Refusal::unnamed)?;
///     Ok((Request::from_parts(parts, Body::from(body)), resource))
/// }
///
/// let name = NameLayer::new(in_the_body); // above:
/// let fence = FenceLayer::new(Fence::new(MemoryMarks::default()), http::named);
/// ```
///
/// If the closure returns an error, the request is refused under every policy. The error is a [`Refusal`], or
/// becomes one. [`Refusal::unnamed`] makes a 400 of an error that is the client's fault; the client sees its text.
/// `?` makes a 503 ([`Refusal::Unnamed`]) of the errors of `fencing::sql` and of sqlx; their text is logged and not
/// sent. The closure reads the request before its token is checked: limit how long that takes and how large a body
/// may be, and put this layer below your authentication.
///
/// **Fencing.** Let the handler use what the closure has read. A handler that finds its resource in another
/// way may write to a resource that the fence has not admitted.
#[derive(Debug, Clone)]
pub struct NameLayer<F> {
    namer: F,
}

impl<F> NameLayer<F> {
    /// Names resources by this closure.
    pub fn new(namer: F) -> NameLayer<F> {
        NameLayer { namer }
    }
}

impl<S, F: Clone> Layer<S> for NameLayer<F> {
    type Service = NameService<S, F>;

    fn layer(&self, inner: S) -> NameService<S, F> {
        NameService { inner, namer: self.namer.clone() }
    }
}

/// A service behind a [`NameLayer`].
#[derive(Debug, Clone)]
pub struct NameService<S, F> {
    inner: S,
    namer: F,
}

/// The resources of a request, in its extensions.
#[derive(Clone)]
struct NamedResources(Resources);

impl<S, F, A, N, E, B, R> Service<Request<B>> for NameService<S, F>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    F: Fn(Request<B>) -> A,
    A: Future<Output = Result<(Request<B>, N), E>> + Send + 'static,
    N: Into<Resources> + Send,
    E: Into<Refusal>,
    B: Send + 'static,
{
    type Response = Response<FenceBody<R>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut inner = take_ready(&mut self.inner);
        let style = AnswerStyle::plain(is_grpc(request.method(), request.headers()));
        let naming = (self.namer)(request);
        async move {
            let refusal = match naming.await.map_err(Into::into) {
                Ok((mut request, resources)) => {
                    request.extensions_mut().insert(NamedResources(resources.into()));
                    return Ok(inner.call(request).await?.map(FenceBody::passing));
                }
                // Nothing was written.
                Err(Refusal::Failed(cause)) => {
                    tracing::error!(error = %cause, "resource not named");
                    Refusal::Unnamed(cause)
                }
                Err(refusal) => refusal,
            };
            refusal.count();
            Ok(refusal.answer(&style, FenceBody::refusal))
        }
        .boxed()
    }
}

/// Returns what a [`NameLayer`] above has found: the extractor of the [`FenceLayer`](super::FenceLayer).
///
/// # Errors
/// Returns [`PathError::NoRoute`] if there is none above. The client gets a 500.
pub fn named(parts: &Parts) -> Result<Resources, PathError> {
    let Some(NamedResources(resources)) = parts.extensions.get() else {
        return Err(PathError::NoRoute { missing: "NameLayer" });
    };
    Ok(resources.clone())
}
