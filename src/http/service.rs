use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::mem::replace;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum_core::body::Body;
use bytes::Bytes;
use fencing_protocol::{NonEmpty, Resource, Token};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::admissions::Passage;
use super::answer::{AnswerStyle, is_grpc};
use super::extract::WithoutToken;
use super::future::UnsentCall;
use super::header::{HEADER, SEQUENCER, read_sequencer};
use super::{FenceBody, FenceFuture, FenceLayer, Fenced, PathError, Policy, Refusal, Resources};
use crate::sequencer::Sequencer;

/// A service behind a [`FenceLayer`]. Clones share the fence.
///
/// It is always ready: it asks the service below when a request is admitted. A newer request must
/// come as far as the fence while older ones have all places below.
#[derive(Clone, derive_more::Debug)]
pub struct FenceService<S, X> {
    #[debug(skip)]
    inner: S,
    /// One for all clones: a server makes one for each request.
    layer: Arc<FenceLayer<X>>,
}

impl<S, X: Clone> Layer<S> for FenceLayer<X> {
    type Service = FenceService<S, X>;

    fn layer(&self, inner: S) -> FenceService<S, X> {
        FenceService { inner, layer: Arc::new(self.clone()) }
    }
}

impl<X, N, E> FenceLayer<X>
where
    X: Fn(&Parts) -> Result<N, E>,
    N: Into<Resources>,
    E: Display + 'static,
{
    /// Admits a request without a service below this layer, as a proxy does. A refusal is a response. When this
    /// returns, the resources and their tokens are in the request's extensions, as [`Fenced`]; the fence is asked when
    /// the future is polled.
    #[doc(hidden)]
    pub fn admit(
        &self,
        parts: &mut Parts,
    ) -> impl Future<Output = Result<Passage, Response<Body>>> + Send + use<X, N, E> {
        let (style, read) = (self.style(parts), self.read_into_extensions(parts));
        let (fence, shadow) = (self.fence.clone(), self.shadow);
        async move {
            let body = |text: Option<Bytes>| text.map_or_else(Body::empty, Body::from);
            let asked = Passage::ask(&fence, read, shadow).await;
            asked.map_err(|refusal| refusal.answer(&style, body))
        }
    }

    fn style(&self, parts: &Parts) -> AnswerStyle {
        AnswerStyle {
            grpc: is_grpc(&parts.method, &parts.headers),
            header: self.header.clone(),
            hides_highest: self.hides_highest,
        }
    }

    /// Reads what the fence must admit the request with, and puts it into the request's extensions.
    fn read_into_extensions(&self, parts: &mut Parts) -> Result<Option<Fenced>, Refusal> {
        let read = self.read(parts);
        match &read {
            Ok(Some(fenced)) => drop(parts.extensions.insert(fenced.clone())),
            _ => drop(parts.extensions.insert(WithoutToken)),
        }
        read
    }

    /// Reads what the fence must admit the request with, if it carries a token.
    fn read(&self, parts: &Parts) -> Result<Option<Fenced>, Refusal> {
        let policy = (self.policy)(parts);
        if policy == Policy::Ignored {
            return Ok(None);
        }
        let token = token(&parts.headers, &self.header)?;
        let mut sequencers = sequencers(&parts.headers)?;
        // If the token has a header of its own, a proxy may watch that one only.
        let own_header = self.header != HEADER;
        if sequencers.len() > 1 && (own_header || token.is_some()) {
            return Err(Refusal::Mismatch(format!("with several headers {SEQUENCER} send no other token")));
        }
        let token = match (token, sequencers.first_key_value()) {
            (Some(token), Some((resource, other))) if token != *other => {
                return Err(Refusal::Mismatch(format!("token {token} came with sequencer {other} {resource}")));
            }
            (Some(token), _) => token,
            (None, Some((_, other))) if !own_header => *other,
            (None, _) if policy == Policy::Required => return Err(Refusal::Missing),
            (None, _) => return Ok(None),
        };
        let Resources(resources) = (self.extractor)(parts).map_err(extractor_refusal)?.into();
        let Some(resources) = resources else { return Err(each_its_own([])) };
        if sequencers.is_empty() && resources.tail.is_empty() {
            let only = Sequencer::new(resources.head, token);
            return Ok(Some(Fenced::new(NonEmpty::new(only))));
        }
        let own = |resource: &Resource| Some(Sequencer::new(resource.clone(), sequencers.remove(resource)?));
        let found: Option<Vec<Sequencer>> = resources.iter().map(own).collect();
        match found.and_then(NonEmpty::from_vec) {
            Some(found) if sequencers.is_empty() => Ok(Some(Fenced::new(found))),
            _ => Err(each_its_own(&resources)),
        }
    }
}

fn each_its_own<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Refusal {
    let names: Vec<&str> = resources.into_iter().map(Resource::as_str).collect();
    let names = names.join(", ");
    Refusal::Mismatch(format!(
        "the request is about {names}: send one header {SEQUENCER} for each of them, and no other"
    ))
}

/// Makes the refusal of a request that names no resource: a fault of the client, or of the server.
fn extractor_refusal<E: Display + 'static>(error: E) -> Refusal {
    match (&error as &dyn Any).downcast_ref() {
        Some(error @ PathError::NoRoute { missing }) => {
            tracing::error!(%error, missing, "request not carried out");
            Refusal::NoResource(error.clone())
        }
        _ => Refusal::unnamed(error),
    }
}

/// Reads the one token in the headers, if there is one.
fn token(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Token>, Refusal> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().unwrap_or("").parse().map(Some).map_err(Refusal::Malformed),
        (Some(_), Some(_)) => Err(Refusal::Repeated),
    }
}

/// Reads the sequencers in the headers: one for each resource at most.
fn sequencers(headers: &HeaderMap) -> Result<BTreeMap<Resource, Token>, Refusal> {
    let mut sequencers = BTreeMap::new();
    for value in headers.get_all(SEQUENCER) {
        let Sequencer { resource, token } = read_sequencer(value.to_str().unwrap_or(""))
            .map_err(|error| Refusal::Mismatch(format!("header {SEQUENCER}: {error}")))?;
        if sequencers.insert(resource, token).is_some() {
            return Err(Refusal::Repeated);
        }
        if sequencers.len() > Resources::MAX {
            return Err(Refusal::Mismatch(format!("send at most {} headers {SEQUENCER}", Resources::MAX)));
        }
    }
    Ok(sequencers)
}

impl<S, X, N, E, B, R> Service<Request<B>> for FenceService<S, X>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    X: Fn(&Parts) -> Result<N, E>,
    N: Into<Resources>,
    E: Display + 'static,
    R: http_body::Body + Send + 'static,
    R::Data: From<Bytes>,
{
    type Response = Response<FenceBody<R>>;
    type Error = S::Error;
    type Future = FenceFuture<S, B>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> FenceFuture<S, B> {
        let (mut parts, body) = request.into_parts();
        let (style, read) = (self.layer.style(&parts), self.layer.read_into_extensions(&mut parts));
        let call = UnsentCall { request: Request::from_parts(parts, body), service: self.inner.clone() };
        FenceFuture::new(call, Passage::ask(&self.layer.fence, read, self.layer.shadow), style)
    }
}

/// Takes the service that said it is ready, and leaves its clone.
pub(super) fn take_ready<S: Clone>(service: &mut S) -> S {
    let next = service.clone();
    replace(service, next)
}
