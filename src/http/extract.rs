use std::convert::Infallible;

use axum_core::body::Body;
use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use axum_core::response::{IntoResponse, Response};
use http::request::Parts;

use super::refusal::Style;
use super::{HEADER, Refusal};
use crate::resource::Resource;
use crate::token::Token;

/// What the layer has admitted a request with. It stands in the request's extensions and is
/// an axum extractor.
///
/// Take `Option<Fenced>` where a token may be missing, as in a read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fenced {
    /// The resource, as the server's extractor named it.
    pub resource: Resource,
    /// The token. Give it to the check inside the transaction that writes.
    pub token: Token,
}

/// No token was admitted for the request: it carries none, or no
/// [`FenceLayer`](super::FenceLayer) stands around the handler. The client gets a 428.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no fencing token was admitted: the request has none, or no FenceLayer stands around this \
     handler"
)]
#[non_exhaustive]
pub struct NotFenced;

impl IntoResponse for NotFenced {
    fn into_response(self) -> Response {
        IntoResponse::into_response(Refusal::Missing)
    }
}

impl<S: Sync> FromRequestParts<S> for Fenced {
    type Rejection = NotFenced;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Fenced, NotFenced> {
        parts.extensions.get().cloned().ok_or(NotFenced)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Fenced {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Fenced>, Infallible> {
        Ok(parts.extensions.get().cloned())
    }
}

/// Answers for a handler whose own check refused, such as the one inside its transaction. The
/// answer is a problem in JSON and shows the highest token, whatever a layer outside hides.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        if let Refusal::Failed(error) = &self {
            tracing::error!(%error, "the write behind the fence failed");
        }
        let style = Style { grpc: false, header: HEADER, hides_highest: false };
        self.answer(&style, |text| text.map_or(Body::empty(), Body::from))
    }
}
