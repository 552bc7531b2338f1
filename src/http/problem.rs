use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};

use crate::fence::Stale;
use crate::resource::Resource;
use crate::token::Token;

/// A refusal as it goes over the wire: problem details (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Problem {
    /// Which kind of problem: [`Problem::STALE`] and its siblings.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What went wrong this time.
    #[serde(default)]
    pub detail: String,
    /// What was to be written, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Resource>,
    /// The token that was presented, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presented: Option<Token>,
    /// The highest token seen, of a stale one, unless the server keeps it to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<Token>,
}

/// Why a response is no problem that this crate reads.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemError {
    /// The content type is not `application/problem+json`.
    #[error("the response is not application/problem+json")]
    NotAProblem,
    /// The body is not what the content type promises.
    #[error("the problem can't be read: {0}")]
    Malformed(#[source] serde_json::Error),
}

impl Problem {
    /// The content type.
    pub const CONTENT_TYPE: &'static str = "application/problem+json";
    /// A newer token was seen. Trying again is of no use.
    pub const STALE: &'static str = "urn:fencing:stale";
    /// A newer token came in the middle of the request. It may have been carried out or
    /// not; trying again with this token is of no use.
    pub const SUPERSEDED: &'static str = "urn:fencing:superseded";
    /// The request needs a token.
    pub const MISSING: &'static str = "urn:fencing:token-required";
    /// The token or the name of the resource is malformed.
    pub const MALFORMED: &'static str = "urn:fencing:malformed";
    /// The fence could not decide in time. Try again.
    pub const UNAVAILABLE: &'static str = "urn:fencing:unavailable";

    /// Client side: reads the problem from a response.
    ///
    /// # Errors
    /// [`ProblemError`] if the response is none.
    pub fn read(headers: &HeaderMap, body: &[u8]) -> Result<Problem, ProblemError> {
        let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let kind = kind.split(';').next().unwrap_or("").trim();
        if !kind.eq_ignore_ascii_case(Problem::CONTENT_TYPE) {
            return Err(ProblemError::NotAProblem);
        }
        serde_json::from_slice(body).map_err(ProblemError::Malformed)
    }

    /// Whether a newer token was seen.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.kind == Problem::STALE
    }

    /// The refusal as a value, if it is [stale](Problem::is_stale) and complete.
    #[must_use]
    pub fn stale(&self) -> Option<Stale> {
        if !self.is_stale() {
            return None;
        }
        let resource = self.resource.clone()?;
        Some(Stale { resource, presented: self.presented?, highest: self.highest? })
    }
}
