use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use fencing_protocol::{Resource, Token};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::extract::WithoutToken;
use super::future::Waiting;
use super::header::{HEADER, SEQUENCER, read_sequencer};
use super::refusal::Style;
use super::{FenceBody, FenceFuture, FenceLayer, Fenced, PathError, Policy, Refusal, Resources};
use crate::sequencer::Sequencer;

/// A service behind a [`FenceLayer`]. Clones share the fence.
///
/// It is always ready: it asks the service below when a request is let through. A newer
/// request must come as far as the fence while older ones have all places below.
#[derive(Clone)]
pub struct FenceService<S, X> {
    inner: S,
    /// One for all clones: a server makes one for each request.
    layer: Arc<FenceLayer<X>>,
}

impl<S, X> fmt::Debug for FenceService<S, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceService").field("layer", &self.layer).finish_non_exhaustive()
    }
}

impl<S, X: Clone> Layer<S> for FenceLayer<X> {
    type Service = FenceService<S, X>;

    fn layer(&self, inner: S) -> FenceService<S, X> {
        FenceService { inner, layer: Arc::new(self.clone()) }
    }
}

impl<S, X> FenceService<S, X> {
    /// Reads what the fence must admit the request with, if it carries a token.
    fn read<N, E>(&self, parts: &Parts) -> Result<Option<Fenced>, Refusal>
    where
        X: Fn(&Parts) -> Result<N, E>,
        N: Into<Resources>,
        E: Display + 'static,
    {
        let policy = self.layer.rule.of(parts);
        if policy == Policy::Ignored {
            return Ok(None);
        }
        let mut shown = parts.headers.get_all(SEQUENCER).iter();
        let (shown, another) = (shown.next(), shown.next());
        if another.is_some() {
            return self.read_several(parts).map(Some);
        }
        let shown = shown.map(read_shown).transpose()?;
        // Where the token has a header of its own, somebody may watch that one only.
        let alone = self.layer.header == HEADER;
        let token = match (token(&parts.headers, &self.layer.header)?, &shown) {
            (Some(token), Some(shown)) if token != shown.token => {
                return Err(Refusal::Mismatch(format!(
                    "token {token} came with sequencer {shown}"
                )));
            }
            (Some(token), _) => token,
            (None, Some(shown)) if alone => shown.token,
            (None, _) if policy == Policy::Required => return Err(Refusal::Missing),
            (None, _) => return Ok(None),
        };
        let resources: Resources = (self.layer.extractor)(parts).map_err(unnamed)?.into();
        let resource =
            resources.into_one().map_err(|several| Refusal::Mismatch(each_its_own(&several)))?;
        match shown {
            Some(shown) if shown.resource != resource => Err(Refusal::Mismatch(format!(
                "sequencer {shown} came with a request about {resource}"
            ))),
            _ => Ok(Some(Fenced::new(Sequencer::new(resource, token), Vec::new()))),
        }
    }

    /// Reads the sequencers of a request about several resources: one for each, and no others.
    fn read_several<N, E>(&self, parts: &Parts) -> Result<Fenced, Refusal>
    where
        X: Fn(&Parts) -> Result<N, E>,
        N: Into<Resources>,
        E: Display + 'static,
    {
        if self.layer.header != HEADER || parts.headers.contains_key(HEADER) {
            let alone = format!("send no other token beside several headers {SEQUENCER}");
            return Err(Refusal::Mismatch(alone));
        }
        let mut shown = BTreeMap::new();
        for value in parts.headers.get_all(SEQUENCER) {
            let Sequencer { resource, token } = read_shown(value)?;
            if shown.insert(resource, token).is_some() {
                return Err(Refusal::Repeated);
            }
            if shown.len() > Resources::MOST {
                let most = format!("send at most {} headers {SEQUENCER}", Resources::MOST);
                return Err(Refusal::Mismatch(most));
            }
        }
        let resources: Resources = (self.layer.extractor)(parts).map_err(unnamed)?.into();
        let resources = resources.into_vec();
        let mut sequencers = Vec::with_capacity(resources.len());
        for resource in &resources {
            // A resource that two headers name is found only once.
            let Some(token) = shown.remove(resource) else {
                return Err(Refusal::Mismatch(each_its_own(&resources)));
            };
            sequencers.push(Sequencer::new(resource.clone(), token));
        }
        match (sequencers.is_empty(), shown.into_iter().next()) {
            (false, None) => {
                let first = sequencers.remove(0);
                Ok(Fenced::new(first, sequencers))
            }
            _ => Err(Refusal::Mismatch(each_its_own(&resources))),
        }
    }
}

/// Says to the client what it must send.
fn each_its_own(resources: &[Resource]) -> String {
    let names: Vec<&str> = resources.iter().map(Resource::as_str).collect();
    let names = names.join(", ");
    format!(
        "send one header {SEQUENCER} for each of the request's resources, and no other: {names}"
    )
}

/// Makes the refusal of a request that names no resource: a fault of the client, or of the server.
fn unnamed<E: Display + 'static>(error: E) -> Refusal {
    match (&error as &dyn Any).downcast_ref() {
        Some(error @ (PathError::NoUri { uri: missing } | PathError::NoRoute { missing })) => {
            tracing::error!(%error, missing, "request not carried out");
            Refusal::NoResource(error.clone())
        }
        _ => Refusal::Resource(error.to_string()),
    }
}

/// Reads the one token in the headers, if there is one.
pub(super) fn token(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Token>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::Repeated);
    }
    let text = value.to_str().unwrap_or("");
    text.parse().map(Some).map_err(Refusal::Malformed)
}

fn read_shown(value: &HeaderValue) -> Result<Sequencer, Refusal> {
    let read = read_sequencer(value.to_str().unwrap_or(""));
    read.map_err(|error| Refusal::Mismatch(format!("header {SEQUENCER}: {error}")))
}

/// Returns whether the client reads the statuses of gRPC rather than those of HTTP.
pub(super) fn is_grpc<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).map_or(&[][..], |kind| kind.as_bytes());
    let rest = kind.strip_prefix(b"application/grpc");
    request.method() == Method::POST
        && rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

impl<S, X, N, E, B, R> Service<Request<B>> for FenceService<S, X>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    X: Fn(&Parts) -> Result<N, E>,
    N: Into<Resources>,
    E: Display + 'static,
    R: Body + Send + 'static,
    R::Data: From<Bytes>,
{
    type Response = Response<FenceBody<R>>;
    type Error = S::Error;
    type Future = FenceFuture<S, B>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> FenceFuture<S, B> {
        let style = Style {
            grpc: is_grpc(&request),
            header: self.layer.header.clone(),
            hides_highest: self.layer.hides_highest,
        };
        let (parts, body) = request.into_parts();
        let read = self.read(&parts);
        let mut request = Request::from_parts(parts, body);
        let service = self.inner.clone();
        let fence = &self.layer.fence;
        match read {
            Ok(Some(fenced)) => {
                request.extensions_mut().insert(fenced.clone());
                let waiting = Waiting { request, service };
                match self.layer.shadow {
                    true => FenceFuture::observing(fence.clone(), fenced, waiting, style),
                    false => FenceFuture::admitting(fence, fenced, waiting, style),
                }
            }
            Err(refusal) if !self.layer.shadow => {
                count(&refusal);
                FenceFuture::refused(refusal, style)
            }
            none => {
                request.extensions_mut().insert(WithoutToken);
                let refusal = none.err();
                FenceFuture::passing(Waiting { request, service }, refusal, style)
            }
        }
    }
}

/// Counts a request that was refused before the fence was asked: the fence counts the others.
pub(super) fn count(refusal: &Refusal) {
    let outcome = refusal.label();
    metrics::counter!("fencing_admissions_total", "door" => "http", "outcome" => outcome)
        .increment(1);
}
