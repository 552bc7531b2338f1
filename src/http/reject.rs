use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, HeaderName, Response, StatusCode};

use super::Problem;
use crate::fence::{AdmitError, Stale};
use crate::resource::Resource;
use crate::token::{Token, TokenError};

/// Why a request was not carried out, or not to its end. The response carries it in its extensions,
/// so that a layer outside can count it or answer in its own words.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Refusal {
    /// A newer token was seen. The request did not reach the handler.
    Stale(Stale),
    /// A newer token came while the request was with its handler, and the fence
    /// [drops older](crate::fence::Fence::drop_older) requests. What it had done by then may stand.
    Superseded(Stale),
    /// The request needs a token and has none.
    Missing,
    /// The token is no token.
    Malformed(TokenError),
    /// The header was sent more than once.
    Repeated,
    /// The server's extractor found no resource.
    Resource(String),
    /// The fence could not decide: marks unreachable or full, older requests that do not end.
    Unavailable {
        /// What was to be written.
        resource: Resource,
        /// The token that was presented.
        presented: Token,
        /// Why.
        cause: Arc<AdmitError>,
    },
}

/// How the client wants to be told, and what it may know.
#[derive(Debug, Clone)]
pub(super) struct Style {
    pub(super) grpc: bool,
    pub(super) header: HeaderName,
    pub(super) hides_highest: bool,
}

/// The gRPC status codes in use.
const UNKNOWN: u16 = 2;
const INVALID_ARGUMENT: u16 = 3;
const FAILED_PRECONDITION: u16 = 9;
const ABORTED: u16 = 10;
const UNAVAILABLE: u16 = 14;

impl Refusal {
    pub(super) fn of(resource: Resource, presented: Token, error: AdmitError) -> Refusal {
        match error {
            AdmitError::Stale(stale) => Refusal::Stale(stale),
            cause => Refusal::Unavailable { resource, presented, cause: Arc::new(cause) },
        }
    }

    /// The HTTP status that it is answered with.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Refusal::Stale(_) => StatusCode::PRECONDITION_FAILED,
            Refusal::Missing => StatusCode::PRECONDITION_REQUIRED,
            Refusal::Malformed(_) | Refusal::Repeated | Refusal::Resource(_) => {
                StatusCode::BAD_REQUEST
            }
            // In doubt, as any 5xx is.
            Refusal::Superseded(_) | Refusal::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Whether trying again may help.
    fn passes(&self) -> bool {
        match self {
            Refusal::Unavailable { cause, .. } => !matches!(**cause, AdmitError::Full { .. }),
            _ => false,
        }
    }

    fn grpc_status(&self) -> u16 {
        match self {
            Refusal::Stale(_) => ABORTED,
            Refusal::Superseded(_) => UNKNOWN,
            Refusal::Missing => FAILED_PRECONDITION,
            Refusal::Malformed(_) | Refusal::Repeated | Refusal::Resource(_) => INVALID_ARGUMENT,
            Refusal::Unavailable { .. } => UNAVAILABLE,
        }
    }

    fn kind(&self) -> (&'static str, &'static str) {
        match self {
            Refusal::Stale(_) => (Problem::STALE, "Stale fencing token"),
            Refusal::Superseded(_) => (Problem::SUPERSEDED, "Superseded by a newer token"),
            Refusal::Missing => (Problem::MISSING, "Fencing token required"),
            Refusal::Malformed(_) | Refusal::Repeated | Refusal::Resource(_) => {
                (Problem::MALFORMED, "Malformed request")
            }
            Refusal::Unavailable { .. } => (Problem::UNAVAILABLE, "Fence unavailable"),
        }
    }

    /// What the client is told; causes inside the server are not among it.
    fn detail(&self, style: &Style) -> String {
        let header = &style.header;
        match self {
            Refusal::Stale(stale) if style.hides_highest => {
                let Stale { resource, presented, .. } = stale;
                format!("token {presented} of {resource} is stale: a newer one has been seen")
            }
            Refusal::Stale(stale) => stale.to_string(),
            Refusal::Superseded(Stale { resource, presented, .. }) => format!(
                "token {presented} of {resource} was cut off by a newer one; \
                 what it wrote may or may not be stored"
            ),
            Refusal::Missing => {
                format!("send the token of your lease in the header {header}")
            }
            Refusal::Malformed(error) => format!("header {header}: {error}"),
            Refusal::Repeated => format!("header {header} was sent more than once"),
            Refusal::Resource(error) => error.clone(),
            Refusal::Unavailable { cause, .. } => match &**cause {
                AdmitError::Busy { .. } => cause.to_string(),
                _ => "the high-water marks can't be asked; nothing was written".into(),
            },
        }
    }

    /// As problem details.
    #[must_use]
    pub(super) fn problem(&self, style: &Style) -> Problem {
        let (kind, title) = self.kind();
        let (resource, presented, highest) = match self {
            Refusal::Stale(stale) | Refusal::Superseded(stale) => (
                Some(stale.resource.clone()),
                Some(stale.presented),
                (!style.hides_highest).then_some(stale.highest),
            ),
            Refusal::Unavailable { resource, presented, .. } => {
                (Some(resource.clone()), Some(*presented), None)
            }
            _ => (None, None, None),
        };
        Problem {
            kind: kind.into(),
            title: title.into(),
            status: self.status().as_u16(),
            detail: self.detail(style),
            resource,
            presented,
            highest,
        }
    }

    /// The response, its body apart.
    pub(super) fn answer<B>(
        self,
        style: &Style,
        body: impl FnOnce(Option<Bytes>) -> B,
    ) -> Response<B> {
        let mut headers = HeaderMap::new();
        let (status, text) = if style.grpc {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            headers.insert("grpc-status", HeaderValue::from(self.grpc_status()));
            if let Ok(message) = HeaderValue::try_from(percent_encoded(&self.detail(style))) {
                headers.insert("grpc-message", message);
            }
            (StatusCode::OK, None)
        } else {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(Problem::CONTENT_TYPE));
            if self.passes() {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            (self.status(), serde_json::to_vec(&self.problem(style)).ok().map(Bytes::from))
        };
        let mut response = Response::new(body(text));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response.extensions_mut().insert(self);
        response
    }
}

/// As the gRPC protocol wants `grpc-message`: printable ASCII, the rest and `%` encoded.
fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}
