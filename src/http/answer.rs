use std::error::Error;
use std::fmt::Display;
use std::io;
use std::mem::take;
use std::sync::Arc;

use bytes::Bytes;
use fencing_protocol::{Resource, Token, TokenError};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};

use super::{HEADER, PathError, Problem};
use crate::fence::{FenceError, NotIssued, Stale};

/// Why a request was not carried out, or not to its end.
///
/// Every response of a refusal carries it in its extensions: an outer layer can count it or replace the response.
///
/// `?` turns the errors of your own check into a refusal: a [`Stale`], a [`FenceError`], and whatever converts into
/// that, such as the errors of `fencing::sql` and of sqlx. So a handler that returns `Result<_, Refusal>` answers a
/// stale token with 412 and a failure with 503, as the layer does.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The fence, or the handler's own check, has seen a newer token. Nothing was written.
    #[error(transparent)]
    Stale(Stale),
    /// The lock service has not issued the token for this resource. Nothing was written.
    #[error(transparent)]
    NotIssued(NotIssued),
    /// A newer token came while the handler worked on the request, and the fence [drops
    /// older](crate::fence::Fence::drop_older_after) requests. Its writes until then may be stored.
    #[error("cut off by a newer request, in doubt: {0}")]
    Superseded(Stale),
    /// The request needs a token and has none.
    #[error("the request needs a fencing token and has none")]
    Missing,
    /// The token is not a valid one.
    #[error("the fencing token of the request can't be read: {0}")]
    Malformed(TokenError),
    /// The request carries the header more than once.
    #[error("the request carries more than one fencing token")]
    Repeated,
    /// The request's [sequencer](super::SEQUENCER) cannot be read, or names another token or resource.
    #[error("the sequencer does not belong to the request: {0}")]
    Mismatch(String),
    /// The server's extractor found no resource.
    #[error("the request does not name a resource: {0}")]
    Resource(String),
    /// The server cannot name the resource: it is misconfigured.
    #[error("the request was not carried out: {0}")]
    NoResource(#[source] PathError),
    /// A [`NameLayer`](super::NameLayer) could not determine the resource, because a server that its
    /// closure asks, such as a database, failed. Nothing was written.
    #[error("could not determine the resource of the request: {0}")]
    Unnamed(#[source] Arc<dyn Error + Send + Sync>),
    /// The fence could not admit: the marks are unreachable or full, the lock service cannot be asked, older requests
    /// do not end, too many wait for them, or tokio does not run. The layer did not call the handler.
    #[error("{cause}")]
    Unavailable {
        /// The resource of the request.
        resource: Resource,
        /// The presented token.
        presented: Token,
        /// The cause.
        cause: Arc<FenceError>,
    },
    /// The storage of the fence lacks a table or a function, or refuses the check: a right is missing, or the mark is
    /// not a token. The check wrote nothing, and a retry does not help.
    #[error("the fence of the request is not set up: {0}")]
    NotSetUp(#[source] Arc<dyn Error + Send + Sync>),
    /// Another transaction conflicts with the one that checks the token, which was rolled back. It says
    /// nothing about the token: the same request may succeed when it is sent again. Only a layer returns
    /// this, for its own transaction: `?` in a handler makes a [`Refusal::Failed`] of such an error, and a
    /// [`TransactionLayer`](super::TransactionLayer) around the handler turns that into this.
    #[error("conflicting transaction; this one was rolled back: {0}")]
    Conflict(#[source] Arc<dyn Error + Send + Sync>),
    /// The handler succeeded, but its [transaction](super::TransactionLayer) was rolled back: one of its
    /// statements had failed, or the database has lost it. Nothing of it is stored.
    #[error("the transaction of the request was rolled back: {0}")]
    RolledBack(#[source] Arc<dyn Error + Send + Sync>),
    /// The commit of the [transaction](super::TransactionLayer) failed, or its answer was lost. It may be stored.
    #[error("the commit failed, in doubt: {0}")]
    InDoubt(#[source] Arc<dyn Error + Send + Sync>),
    /// The handler succeeded, but something still holds its [transaction](super::InTransaction), such as a task or the
    /// body of its response. Nothing of it is stored.
    #[error("the handler kept its transaction after its response; it was not committed")]
    Kept,
    /// The handler's own check failed, or its write. Its writes may be stored.
    #[error("the write failed, in doubt: {0}")]
    Failed(#[source] Arc<dyn Error + Send + Sync>),
}

impl<E: Into<FenceError>> From<E> for Refusal {
    fn from(error: E) -> Refusal {
        match error.into() {
            FenceError::Stale(stale) => Refusal::Stale(stale),
            FenceError::NotIssued(not_issued) => Refusal::NotIssued(not_issued),
            FenceError::NotSetUp(cause) => Refusal::NotSetUp(cause.into()),
            FenceError::Unreachable(cause) | FenceError::Refused(cause) => Refusal::Failed(cause.into()),
            error => Refusal::Failed(Arc::new(error)),
        }
    }
}

/// How the client wants its answer, and what it may know.
#[derive(Debug, Clone)]
pub(super) struct AnswerStyle {
    pub(super) grpc: bool,
    pub(super) header: HeaderName,
    pub(super) hides_highest: bool,
}

impl AnswerStyle {
    /// The style of a client without a layer's settings.
    pub(super) const fn plain(grpc: bool) -> AnswerStyle {
        AnswerStyle { grpc, header: HEADER, hides_highest: false }
    }
}

/// Returns whether the client reads the statuses of gRPC rather than those of HTTP, as one of gRPC-Web would.
#[doc(hidden)]
pub fn is_grpc(method: &Method, headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    let (kind, rest) = kind.split_at_checked(GRPC.len()).unwrap_or_default();
    *method == Method::POST
        && kind.eq_ignore_ascii_case(GRPC.as_bytes())
        && matches!(rest.first(), None | Some(b'+' | b';'))
}

const GRPC: &str = "application/grpc";

/// A status of HTTP, and the one of gRPC for the same outcome.
struct Statuses {
    http: StatusCode,
    grpc: u16,
}

const STALE: Statuses = Statuses { http: StatusCode::PRECONDITION_FAILED, grpc: 10 };
const MISSING: Statuses = Statuses { http: StatusCode::PRECONDITION_REQUIRED, grpc: 9 };
const INVALID: Statuses = Statuses { http: StatusCode::BAD_REQUEST, grpc: 3 };
const INTERNAL: Statuses = Statuses { http: StatusCode::INTERNAL_SERVER_ERROR, grpc: 13 };
const UNAVAILABLE: Statuses = Statuses { http: StatusCode::SERVICE_UNAVAILABLE, grpc: 14 };
const IN_DOUBT: Statuses = Statuses { http: StatusCode::SERVICE_UNAVAILABLE, grpc: 2 };
const ROLLED_BACK: Statuses = Statuses { http: StatusCode::SERVICE_UNAVAILABLE, grpc: 13 };

/// The constant part of the answer to a kind of refusal.
struct AnswerTerms {
    statuses: Statuses,
    kind: &'static str,
    /// Its label in the metrics.
    label: &'static str,
}

impl Refusal {
    /// Returns the refusal of a request that names its resource wrongly: a 400, with the text of the error.
    pub fn unnamed<E: Display>(error: E) -> Refusal {
        Refusal::Resource(error.to_string())
    }

    pub(super) fn before_the_handler(resource: Resource, presented: Token, error: FenceError) -> Refusal {
        match error {
            FenceError::Conflict(cause) => Refusal::Conflict(cause.into()),
            FenceError::Refused(cause) => Refusal::NotSetUp(cause.into()),
            FenceError::Stale(_) | FenceError::NotIssued(_) | FenceError::NotSetUp(_) => error.into(),
            cause => Refusal::Unavailable { resource, presented, cause: Arc::new(cause) },
        }
    }

    fn terms(&self) -> AnswerTerms {
        let (statuses, kind, label) = match self {
            Refusal::Stale(_) => (STALE, Problem::STALE, "stale"),
            Refusal::NotIssued(_) => (INVALID, Problem::NOT_ISSUED, "not_issued"),
            Refusal::Superseded(_) => (IN_DOUBT, Problem::SUPERSEDED, "superseded"),
            Refusal::Missing => (MISSING, Problem::MISSING, "missing"),
            Refusal::Malformed(_) | Refusal::Repeated | Refusal::Mismatch(_) => {
                (INVALID, Problem::MALFORMED, "malformed")
            }
            Refusal::Resource(_) => (INVALID, Problem::MALFORMED, "no_resource"),
            Refusal::NoResource(_) => (INTERNAL, Problem::UNAVAILABLE, "no_resource"),
            Refusal::NotSetUp(_) => (INTERNAL, Problem::UNAVAILABLE, "not_set_up"),
            Refusal::Unnamed(_) | Refusal::Unavailable { .. } => (UNAVAILABLE, Problem::UNAVAILABLE, "unavailable"),
            Refusal::Conflict(_) => (UNAVAILABLE, Problem::CONFLICT, "retryable"),
            Refusal::RolledBack(_) if self.may_pass_later() => (UNAVAILABLE, Problem::ROLLED_BACK, "rolled_back"),
            Refusal::RolledBack(_) => (ROLLED_BACK, Problem::ROLLED_BACK, "rolled_back"),
            Refusal::Kept => (INTERNAL, Problem::ROLLED_BACK, "kept"),
            Refusal::InDoubt(_) => (IN_DOUBT, Problem::IN_DOUBT, "in_doubt"),
            Refusal::Failed(_) => (IN_DOUBT, Problem::UNAVAILABLE, "failed"),
        };
        AnswerTerms { statuses, kind, label }
    }

    /// Returns the HTTP status of its response. A gRPC client gets 200 and a gRPC status.
    pub fn status(&self) -> StatusCode {
        self.terms().statuses.http
    }

    /// Counts a refusal that the fence has not counted.
    pub(super) fn count(&self) {
        let outcome = self.terms().label;
        metrics::counter!("fencing_admissions_total", "layer" => "http", "outcome" => outcome).increment(1);
    }

    /// Counts and logs a refusal in shadow mode, which lets the request pass.
    pub(super) fn note_shadow(&self) {
        tracing::info!(refusal = %self, "request would be refused");
        let outcome = format!("shadow_{}", self.terms().label);
        metrics::counter!("fencing_admissions_total", "layer" => "http", "outcome" => outcome).increment(1);
    }

    /// Returns whether nothing was written, and the same request may succeed when it is sent again.
    fn may_pass_later(&self) -> bool {
        match self {
            Refusal::Unavailable { cause, .. } => {
                !matches!(**cause, FenceError::Full { .. } | FenceError::Closed(_) | FenceError::NoRuntime)
            }
            Refusal::RolledBack(cause) => is_broken_connection(&**cause),
            Refusal::Unnamed(_) | Refusal::Conflict(_) => true,
            _ => false,
        }
    }

    /// Explains it to the client, without causes inside the server.
    fn detail(&self, style: &AnswerStyle) -> String {
        let header = &style.header;
        let again = if self.may_pass_later() { "; try again" } else { "" };
        let nothing_written = |what: &str| format!("{what}; nothing was written{again}");
        match self {
            Refusal::Stale(stale) if style.hides_highest => {
                let Stale { resource, presented, .. } = stale;
                format!("token {presented} of {resource} is stale: a newer one has been seen")
            }
            Refusal::Stale(stale) => stale.to_string(),
            // A client that looks for the ceiling does not learn it.
            Refusal::NotIssued(NotIssued { resource, presented, ceiling: Some(_) }) => {
                format!("token {presented} of {resource} was not issued")
            }
            Refusal::NotIssued(not_issued) => not_issued.to_string(),
            Refusal::Superseded(Stale { resource, presented, .. }) => format!(
                "token {presented} of {resource} was cut off by a newer one; what it wrote may or may not be stored"
            ),
            Refusal::Missing => format!("send the token of your lease in the header {header}"),
            Refusal::Malformed(error) => format!("header {header}: {error}"),
            Refusal::Repeated => format!("header {header} was sent more than once"),
            Refusal::Mismatch(error) | Refusal::Resource(error) => error.clone(),
            Refusal::NoResource(_) => nothing_written("the server cannot name the resource"),
            Refusal::NotSetUp(_) => nothing_written("the server's fence is not set up"),
            Refusal::Unnamed(_) => nothing_written("the server cannot name the resource now"),
            Refusal::Unavailable { resource, cause, .. } => match &**cause {
                FenceError::Busy { .. } | FenceError::Crowded { .. } => cause.to_string(),
                FenceError::Closed(_) => {
                    nothing_written("the high-water marks are closed until an operator opens them")
                }
                FenceError::Full { .. } => nothing_written(&format!("no room for a high-water mark of {resource}")),
                FenceError::Quarantine { .. } => nothing_written(&cause.to_string()),
                FenceError::NoRuntime => nothing_written("the server's fence can't run here"),
                FenceError::Unchecked { .. } => nothing_written("the token could not be checked with the lock service"),
                FenceError::NoConnection(_) => nothing_written("the server has no free database connection"),
                _ => nothing_written("the high-water marks are unreachable"),
            },
            Refusal::Conflict(_) => "conflicting transaction; this one was rolled back; try again".into(),
            Refusal::RolledBack(_) => nothing_written("the transaction was rolled back"),
            Refusal::Kept => nothing_written("the server kept the transaction open"),
            Refusal::InDoubt(_) => "the commit is in doubt: what the request wrote may or may not be stored; \
                 read before you try again"
                .into(),
            Refusal::Failed(_) => "the write failed; it may or may not be stored; read before you try again".into(),
        }
    }

    fn problem(&self, style: &AnswerStyle) -> Problem {
        let AnswerTerms { statuses, kind, .. } = self.terms();
        let (resource, presented, highest) = match self {
            Refusal::Stale(stale) | Refusal::Superseded(stale) => {
                (Some(stale.resource.clone()), Some(stale.presented), (!style.hides_highest).then_some(stale.highest))
            }
            Refusal::NotIssued(NotIssued { resource, presented, .. })
            | Refusal::Unavailable { resource, presented, .. } => (Some(resource.clone()), Some(*presented), None),
            _ => (None, None, None),
        };
        let problem = Problem::new(kind, statuses.http, self.detail(style));
        Problem { resource, presented, highest, ..problem }
    }

    /// Returns the refusal as the head of a gRPC response without a body, or as its trailers.
    pub(super) fn grpc_metadata(&self, style: &AnswerStyle) -> HeaderMap {
        self.problem(style).to_grpc(self.terms().statuses.grpc)
    }

    /// Makes the response, with the body that `body` makes of its text.
    pub(super) fn answer<B>(self, style: &AnswerStyle, body: impl FnOnce(Option<Bytes>) -> B) -> Response<B> {
        let mut headers = HeaderMap::new();
        let (status, text) = if style.grpc {
            headers = self.grpc_metadata(style);
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
            (StatusCode::OK, None)
        } else {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(Problem::CONTENT_TYPE));
            if self.may_pass_later() {
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

    /// Makes an answer for a handler, or for a layer below the fence. The fence replaces it.
    pub(super) fn answer_below<B>(self, body: impl FnOnce(Option<Bytes>) -> B) -> Response<B> {
        let mut response = self.answer(&AnswerStyle::plain(false), body);
        response.extensions_mut().insert(FromHandler);
        response
    }
}

/// Whether the connection broke, not a statement or a constraint: then another connection may do.
fn is_broken_connection(cause: &(dyn Error + 'static)) -> bool {
    cause.is::<io::Error>() || cause.source().is_some_and(is_broken_connection)
}

/// Marks a handler's answer made of a refusal, which the layer replaces: it knows what the client may read.
#[derive(Debug, Clone, Copy)]
struct FromHandler;

/// Takes the refusal out of a handler's answer, if the answer is a refusal and still has its status.
pub(super) fn refusal_of_handler<B>(response: &mut Response<B>) -> Option<Refusal> {
    let extensions = response.extensions_mut();
    extensions.remove::<FromHandler>()?;
    let refusal = extensions.get::<Refusal>()?.clone();
    (response.status() == refusal.status()).then_some(refusal)
}

/// Replaces the handler's answer by the layer's, and keeps the handler's other headers.
pub(super) fn replace_answer<B, C>(handlers: Response<B>, mut answer: Response<C>) -> Response<C> {
    let (mut parts, body) = handlers.into_parts();
    // Drops the body before the request stops counting as in flight.
    drop(body);
    for name in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, RETRY_AFTER] {
        parts.headers.remove(name);
    }
    parts.headers.extend(take(answer.headers_mut()));
    *answer.headers_mut() = parts.headers;
    parts.extensions.extend(take(answer.extensions_mut()));
    *answer.extensions_mut() = parts.extensions;
    answer
}
