use std::convert::Infallible;

use axum_core::body::Body;
use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use axum_core::response::{IntoResponse, Response};
use fencing_protocol::{NonEmpty, Resource, Token};
use http::request::Parts;
use http::{Extensions, StatusCode};

use super::Refusal;
use crate::sequencer::Sequencer;

/// The resource and the token of an admitted request. It is in the request's extensions, and an axum extractor.
///
/// Take `Option<Fenced>` if a token may be missing, as in a read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fenced {
    /// The resource, as the server's extractor named it.
    pub resource: Resource,
    /// The token. Give it to the check inside the transaction that writes.
    pub token: Token,
    others: Vec<Sequencer>,
}

impl Fenced {
    pub(super) fn new(NonEmpty { head, tail: others }: NonEmpty<Sequencer>) -> Fenced {
        Fenced { resource: head.resource, token: head.token, others }
    }

    /// Returns whether the request is about one resource.
    pub(super) fn is_alone(&self) -> bool {
        self.others.is_empty()
    }

    /// Returns the sequencers in the order in which all requests are admitted.
    pub(super) fn in_order(&self) -> Vec<Sequencer> {
        let mut sequencers = self.sequencers();
        sequencers.sort();
        sequencers
    }

    /// Returns every resource with its token, in the extractor's order. The first is that of `resource` and `token`.
    pub fn sequencers(&self) -> Vec<Sequencer> {
        let first = Sequencer::new(self.resource.clone(), self.token);
        std::iter::once(first).chain(self.others.iter().cloned()).collect()
    }
}

/// Marks a request that a layer let pass without a token, in the request's extensions.
#[derive(Debug, Clone, Copy)]
pub(super) struct WithoutToken;

/// Finds what a layer has put into a request's extensions.
pub(super) fn find<X: Send + Sync + 'static>(extensions: &Extensions) -> Result<&X, NotFenced> {
    extensions.get().ok_or(match extensions.get() {
        Some(WithoutToken) => NotFenced::NoToken,
        None => NotFenced::NoLayer,
    })
}

/// Why a handler got no [`Fenced`], or no [`InTransaction`](super::InTransaction).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotFenced {
    /// The request carries no token, and its method did not need one. The client gets a 428.
    #[error("the request carries no fencing token, and its handler needs one")]
    NoToken,
    /// The handler has no [`FenceLayer`](super::FenceLayer) around it, or no
    /// [`TransactionLayer`](super::TransactionLayer) of its pool's kind: the setup is wrong. The client gets a 500.
    #[error(
        "the handler takes a Fenced or a transaction, but its route has no FenceLayer or TransactionLayer \
         that provides it; add the layer to the route"
    )]
    NoLayer,
    /// The transaction is in use: by another extractor, or by a layer between. The client gets a 500.
    #[error("the transaction of the request is already taken")]
    Taken,
}

impl IntoResponse for NotFenced {
    fn into_response(self) -> Response {
        match self {
            NotFenced::NoToken => IntoResponse::into_response(Refusal::Missing),
            NotFenced::NoLayer | NotFenced::Taken => {
                tracing::error!(error = %self, "request not carried out");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Fenced {
    type Rejection = NotFenced;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Fenced, NotFenced> {
        find(&parts.extensions).cloned()
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Fenced {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Fenced>, Infallible> {
        Ok(parts.extensions.get().cloned())
    }
}

/// Answers for a handler whose own check refused, such as the one inside its transaction.
///
/// A [`FenceLayer`](super::FenceLayer) around the handler answers in its place, as it answers refusals of its own: in
/// the style of gRPC where the client speaks it, with its header's name, and without the highest token if it hides
/// that. It keeps the headers that were added. An answer whose status was changed stays as it is.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        if let Refusal::Failed(error) | Refusal::NotSetUp(error) = &self {
            tracing::error!(%error, "the write behind the fence failed");
        }
        self.answer_below(|text| text.map_or(Body::empty(), Body::from))
    }
}
