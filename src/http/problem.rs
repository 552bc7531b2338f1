use std::error::Error;
use std::time::Duration;

use fencing_protocol::{Resource, Token};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use percent_encoding::{percent_decode, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use super::header::ENCODED;
use crate::fence::Stale;

/// A refusal as the client reads it: problem details (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Problem {
    /// The kind of problem: [`Problem::STALE`] and its siblings.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The error of this request.
    #[serde(default)]
    pub detail: String,
    /// The resource of the request, if the server knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Resource>,
    /// The presented token, if it was valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presented: Option<Token>,
    /// The highest token seen, if the presented one is stale and the server does not
    /// [hide](super::FenceLayer::hide_highest) it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<Token>,
    /// The time after which the same request may be sent again: the header `Retry-After` of the response, in seconds.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

/// Why a response is not a problem that this crate can read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// The content type is not `application/problem+json`.
    #[error("the content type of the response is not application/problem+json")]
    NotAProblem,
    /// The body is not the JSON that the content type promises.
    #[error("the problem details of the response can't be read: {0}")]
    Malformed(#[source] Box<dyn Error + Send + Sync>),
}

/// The gRPC metadata that has the problem as JSON, percent-encoded.
const GRPC: HeaderName = HeaderName::from_static("fencing-problem");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

impl Problem {
    /// The prefix of all kinds of this crate.
    pub(super) const OURS: &'static str = "urn:fencing:";
    /// The content type of a problem.
    pub const CONTENT_TYPE: &'static str = "application/problem+json";
    /// The server has seen a newer token. Do not try again with this one.
    pub const STALE: &'static str = "urn:fencing:stale";
    /// A newer token came during the request, which may have been executed. Do not try again with this token.
    pub const SUPERSEDED: &'static str = "urn:fencing:superseded";
    /// The request needs a token.
    pub const MISSING: &'static str = "urn:fencing:token-required";
    /// The token was never issued for this resource.
    pub const NOT_ISSUED: &'static str = "urn:fencing:not-issued";
    /// The token or the name of the resource is malformed.
    pub const MALFORMED: &'static str = "urn:fencing:malformed";
    /// A conflicting transaction: that of the request was rolled back. Try again.
    pub const CONFLICT: &'static str = "urn:fencing:conflict";
    /// The transaction of the request was rolled back: nothing of it is stored. Try again if the response
    /// carries `Retry-After`: then its connection broke. Otherwise a statement had failed, or a constraint.
    pub const ROLLED_BACK: &'static str = "urn:fencing:rolled-back";
    /// The commit failed, or its answer was lost: the write may or may not be stored. Read before you try again.
    pub const IN_DOUBT: &'static str = "urn:fencing:in-doubt";
    /// The fence could not decide, or the write behind it failed. Try again if the response carries `Retry-After`.
    pub const UNAVAILABLE: &'static str = "urn:fencing:unavailable";
    /// Of `fencing serve`: another client holds the lock.
    pub const HELD: &'static str = "urn:fencing:held";
    /// Of `fencing serve`: too many requests wait for locks. Nothing was asked.
    pub const OVERLOADED: &'static str = "urn:fencing:overloaded";
    /// Of `fencing serve`: there is no such lease, or it is over.
    pub const NO_LEASE: &'static str = "urn:fencing:no-lease";

    /// Makes a problem that is about no token. Its title says the same for all of its type (RFC 9457, 3.1.3).
    #[doc(hidden)]
    pub fn new(kind: &str, status: StatusCode, detail: String) -> Problem {
        let title = match kind {
            Problem::STALE => "Stale fencing token",
            Problem::SUPERSEDED => "Superseded by a newer token",
            Problem::MISSING => "Fencing token required",
            Problem::NOT_ISSUED => "Fencing token was never issued",
            Problem::MALFORMED => "Malformed request",
            Problem::CONFLICT => "Conflicting transaction",
            Problem::ROLLED_BACK => "Rolled back",
            Problem::IN_DOUBT => "In doubt",
            Problem::UNAVAILABLE => "Unavailable",
            Problem::HELD => "Held by another client",
            Problem::OVERLOADED => "Too many requests",
            Problem::NO_LEASE => "No such lease",
            _ => status.canonical_reason().unwrap_or_default(),
        };
        let (kind, title, status) = (kind.into(), title.into(), status.as_u16());
        Problem { kind, title, status, detail, resource: None, presented: None, highest: None, retry_after: None }
    }

    /// Client side: reads the problem from the headers and the body of a response.
    ///
    /// # Errors
    /// Returns a [`ProblemError`] if the response is not a problem.
    pub fn read(headers: &HeaderMap, body: &[u8]) -> Result<Problem, ProblemError> {
        if !Problem::is_in(headers) {
            return Err(ProblemError::NotAProblem);
        }
        let problem: Problem = serde_json::from_slice(body).map_err(|error| ProblemError::Malformed(error.into()))?;
        let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        Ok(Problem { retry_after: seconds.map(Duration::from_secs), ..problem })
    }

    /// Client side: reads the problem from the metadata of a gRPC response: its headers, where it has no body, or
    /// `tonic`'s `status.metadata().clone().into_headers()`. Returns `None` if no fence has refused.
    pub fn read_grpc(metadata: &HeaderMap) -> Option<Problem> {
        let text = percent_decode(metadata.get(GRPC)?.as_bytes());
        serde_json::from_slice(&text.collect::<Vec<u8>>()).ok()
    }

    /// Returns whether the body behind these headers is a problem.
    pub(super) fn is_in(headers: &HeaderMap) -> bool {
        let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let kind = kind.split(';').next().unwrap_or("").trim();
        kind.eq_ignore_ascii_case(Problem::CONTENT_TYPE)
    }

    /// Returns the problem as the head of a gRPC response without a body, or as its trailers.
    #[doc(hidden)]
    pub fn to_grpc(&self, status: u16) -> HeaderMap {
        let mut metadata = HeaderMap::new();
        metadata.insert("grpc-status", HeaderValue::from(status));
        let json = serde_json::to_string(self).unwrap_or_default();
        for (name, text) in [(GRPC_MESSAGE, &self.detail), (GRPC, &json)] {
            // As the gRPC protocol wants a `grpc-message`.
            let encoded = utf8_percent_encode(text, ENCODED).to_string();
            if let Ok(value) = HeaderValue::try_from(encoded) {
                metadata.insert(name, value);
            }
        }
        metadata
    }

    /// Returns whether the server refused the token as stale.
    pub fn is_stale(&self) -> bool {
        self.kind == Problem::STALE
    }

    /// Returns the refusal as a value, if the token is [stale](Problem::is_stale) and the server has sent every part.
    pub fn stale(&self) -> Option<Stale> {
        if !self.is_stale() {
            return None;
        }
        Stale::check(self.resource.as_ref()?, self.presented?, self.highest).err()
    }
}
