use std::error::Error;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use fencing_protocol::{Resource, Token, TokenError};
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, HeaderName, Response, StatusCode};

use super::problem::grpc_text;
use super::{PathError, Problem};
use crate::fence::{FenceError, NotIssued, Stale};

/// Why a request was not carried out, or not to its end.
///
/// Every response of a refusal carries it in its extensions: a layer outside can count it, or
/// answer in its own words.
///
/// `?` turns the errors of a check of your own into a refusal: a [`Stale`], a [`FenceError`],
/// and whatever converts into that, such as the errors of `fencing::sql` and of sqlx. So a
/// handler that returns `Result<_, Refusal>` answers a stale token with 412 and a failure with
/// 503, as the layer does.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The fence has seen a newer token. Nothing was written: the layer did not call the
    /// handler, or the handler's own check refused.
    #[error(transparent)]
    Stale(Stale),
    /// The lock service has not issued the token for this resource. Nothing was written.
    #[error(transparent)]
    NotIssued(NotIssued),
    /// A newer token came while the handler worked on the request, and the fence
    /// [drops older](crate::fence::Fence::drop_older_after) requests. What the handler had written by
    /// then may be stored.
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
    /// The [sequencer](super::SEQUENCER) of the request cannot be read, or names another token or another
    /// resource than the request.
    #[error("the sequencer does not belong to the request: {0}")]
    Mismatch(String),
    /// The server's extractor found no resource.
    #[error("the request does not name a resource: {0}")]
    Resource(String),
    /// The server cannot name the resource: it is set up wrongly.
    #[error("the request was not carried out: {0}")]
    NoResource(#[source] PathError),
    /// A [`NameLayer`](super::NameLayer) could not find out which resource the request is about, because a
    /// server that its closure asks, such as a database, failed. Nothing was written.
    #[error("could not find out which resource the request is about: {0}")]
    Unnamed(#[source] Arc<dyn Error + Send + Sync>),
    /// The fence could not admit: the marks are unreachable or full, the lock service cannot be
    /// asked, older requests do not end, too many wait for them, or tokio does not run. The layer
    /// did not call the handler.
    #[error("{cause}")]
    Unavailable {
        /// The resource that the request is about.
        resource: Resource,
        /// The token that was presented.
        presented: Token,
        /// Why the fence could not decide.
        cause: Arc<FenceError>,
    },
    /// The storage of the fence is not set up: a table or a function is missing. Nothing was written by the
    /// check that failed, and to try again does not help.
    #[error("the fence of the request is not set up: {0}")]
    NotSetUp(#[source] Arc<dyn Error + Send + Sync>),
    /// Another transaction was in the way of the one that checks the token, which was rolled back. It says
    /// nothing about the token: the same request may succeed when it is sent again. Only a layer returns
    /// this, for its own transaction: `?` in a handler makes a [`Refusal::Failed`] of such an error, and a
    /// [`TransactionLayer`](super::TransactionLayer) around the handler turns that into this.
    #[error("another transaction was in the way, and this one was rolled back: {0}")]
    Conflict(#[source] Arc<dyn Error + Send + Sync>),
    /// The handler succeeded, but its [transaction](super::TransactionLayer) was rolled back: one of its
    /// statements had failed, or the database has lost it. Nothing of it is stored.
    #[error("the transaction of the request was rolled back: {0}")]
    RolledBack(#[source] Arc<dyn Error + Send + Sync>),
    /// The commit of the request's [transaction](super::TransactionLayer) failed, or its answer was lost.
    /// What the handler wrote may be stored.
    #[error("the commit failed, in doubt: {0}")]
    InDoubt(#[source] Arc<dyn Error + Send + Sync>),
    /// The handler succeeded, but something still holds its
    /// [transaction](super::InTransaction), such as a task or the body of its response. Nothing of it is
    /// stored.
    #[error("the handler kept its transaction beyond its response, and it is not committed")]
    Kept,
    /// The handler's own check failed, or its write. What it wrote may be stored.
    #[error("the write failed, in doubt: {0}")]
    Failed(#[source] Arc<dyn Error + Send + Sync>),
}

impl<E: Into<FenceError>> From<E> for Refusal {
    fn from(error: E) -> Refusal {
        match error.into() {
            FenceError::Stale(stale) => Refusal::Stale(stale),
            FenceError::NotIssued(not_issued) => Refusal::NotIssued(not_issued),
            FenceError::NotSetUp(cause) => Refusal::NotSetUp(cause.into()),
            FenceError::Unreachable(cause) => Refusal::Failed(cause.into()),
            error => Refusal::Failed(Arc::new(error)),
        }
    }
}

/// How the client wants its answer, and what it may know.
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
const INTERNAL: u16 = 13;
const UNAVAILABLE: u16 = 14;

impl Refusal {
    pub(super) fn before_the_handler(
        resource: Resource,
        presented: Token,
        error: FenceError,
    ) -> Refusal {
        match error {
            FenceError::Stale(stale) => Refusal::Stale(stale),
            FenceError::NotIssued(not_issued) => Refusal::NotIssued(not_issued),
            FenceError::Conflict(cause) => Refusal::Conflict(cause.into()),
            FenceError::NotSetUp(cause) => Refusal::NotSetUp(cause.into()),
            cause => Refusal::Unavailable { resource, presented, cause: Arc::new(cause) },
        }
    }

    /// Returns the HTTP status of its response. A gRPC client gets 200 and a gRPC status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Refusal::Stale(_) => StatusCode::PRECONDITION_FAILED,
            Refusal::Missing => StatusCode::PRECONDITION_REQUIRED,
            Refusal::NotIssued(_)
            | Refusal::Malformed(_)
            | Refusal::Repeated
            | Refusal::Mismatch(_)
            | Refusal::Resource(_) => StatusCode::BAD_REQUEST,
            Refusal::NoResource(_) | Refusal::NotSetUp(_) | Refusal::Kept => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            // In doubt, as any 5xx is.
            Refusal::Superseded(_)
            | Refusal::Unnamed(_)
            | Refusal::Unavailable { .. }
            | Refusal::Conflict(_)
            | Refusal::RolledBack(_)
            | Refusal::InDoubt(_)
            | Refusal::Failed(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns its label in the metrics.
    pub(super) fn label(&self) -> &'static str {
        self.labels().0
    }

    /// Returns its label where it is not carried out.
    pub(super) fn shadow_label(&self) -> &'static str {
        self.labels().1
    }

    fn labels(&self) -> (&'static str, &'static str) {
        match self {
            Refusal::Stale(_) => ("stale", "shadow_stale"),
            Refusal::NotIssued(_) => ("not_issued", "shadow_not_issued"),
            Refusal::Superseded(_) => ("superseded", "shadow_superseded"),
            Refusal::Missing => ("missing", "shadow_missing"),
            Refusal::Malformed(_) | Refusal::Repeated | Refusal::Mismatch(_) => {
                ("malformed", "shadow_malformed")
            }
            Refusal::Resource(_) | Refusal::NoResource(_) => ("no_resource", "shadow_no_resource"),
            Refusal::Unnamed(_) | Refusal::Unavailable { .. } => {
                ("unavailable", "shadow_unavailable")
            }
            Refusal::NotSetUp(_) => ("not_set_up", "shadow_not_set_up"),
            Refusal::Conflict(_) => ("retryable", "shadow_retryable"),
            Refusal::RolledBack(_) => ("rolled_back", "shadow_rolled_back"),
            Refusal::InDoubt(_) => ("in_doubt", "shadow_in_doubt"),
            Refusal::Kept => ("kept", "shadow_kept"),
            Refusal::Failed(_) => ("failed", "shadow_failed"),
        }
    }

    /// Returns whether trying again may help.
    fn passes(&self) -> bool {
        match self {
            Refusal::Unavailable { cause, .. } => {
                !matches!(**cause, FenceError::Full { .. } | FenceError::NoRuntime)
            }
            Refusal::RolledBack(cause) => was_cut_off(&**cause),
            Refusal::Unnamed(_) | Refusal::Conflict(_) | Refusal::Failed(_) => true,
            _ => false,
        }
    }

    fn grpc_status(&self) -> u16 {
        match self {
            Refusal::Stale(_) => ABORTED,
            Refusal::Superseded(_) | Refusal::InDoubt(_) | Refusal::Failed(_) => UNKNOWN,
            Refusal::Missing => FAILED_PRECONDITION,
            Refusal::NotIssued(_)
            | Refusal::Malformed(_)
            | Refusal::Repeated
            | Refusal::Mismatch(_)
            | Refusal::Resource(_) => INVALID_ARGUMENT,
            Refusal::RolledBack(_) if !self.passes() => INTERNAL,
            Refusal::NoResource(_) | Refusal::NotSetUp(_) | Refusal::Kept => INTERNAL,
            Refusal::Unnamed(_)
            | Refusal::Unavailable { .. }
            | Refusal::Conflict(_)
            | Refusal::RolledBack(_) => UNAVAILABLE,
        }
    }

    fn kind(&self) -> (&'static str, &'static str) {
        match self {
            Refusal::Stale(_) => (Problem::STALE, "Stale fencing token"),
            Refusal::Superseded(_) => (Problem::SUPERSEDED, "Superseded by a newer token"),
            Refusal::NotIssued(_) => (Problem::NOT_ISSUED, "Fencing token was never issued"),
            Refusal::Missing => (Problem::MISSING, "Fencing token required"),
            Refusal::Malformed(_)
            | Refusal::Repeated
            | Refusal::Mismatch(_)
            | Refusal::Resource(_) => (Problem::MALFORMED, "Malformed request"),
            Refusal::NoResource(_)
            | Refusal::NotSetUp(_)
            | Refusal::Unnamed(_)
            | Refusal::Unavailable { .. } => (Problem::UNAVAILABLE, "Fence unavailable"),
            Refusal::Conflict(_) => (Problem::CONFLICT, "Another transaction was in the way"),
            Refusal::RolledBack(_) | Refusal::Kept => (Problem::ROLLED_BACK, "Rolled back"),
            Refusal::InDoubt(_) => (Problem::IN_DOUBT, "Commit failed, in doubt"),
            Refusal::Failed(_) => (Problem::UNAVAILABLE, "Write failed"),
        }
    }

    /// Says it to the client, without causes inside the server.
    fn detail(&self, style: &Style) -> String {
        let header = &style.header;
        match self {
            Refusal::Stale(stale) if style.hides_highest => {
                let Stale { resource, presented, .. } = stale;
                format!("token {presented} of {resource} is stale: a newer one has been seen")
            }
            Refusal::Stale(stale) => stale.to_string(),
            // A client that looks for the ceiling is not told where it is.
            Refusal::NotIssued(NotIssued { resource, presented, ceiling: Some(_) }) => {
                format!("token {presented} of {resource} was not issued")
            }
            Refusal::NotIssued(not_issued) => not_issued.to_string(),
            Refusal::Superseded(Stale { resource, presented, .. }) => format!(
                "token {presented} of {resource} was cut off by a newer one; \
                 what it wrote may or may not be stored"
            ),
            Refusal::Missing => {
                format!("send the token of your lease in the header {header}")
            }
            Refusal::Malformed(error) => format!("header {header}: {error}"),
            Refusal::Repeated => format!("header {header} was sent more than once"),
            Refusal::Mismatch(error) | Refusal::Resource(error) => error.clone(),
            Refusal::NoResource(_) => {
                "the server cannot name the resource; nothing was written".into()
            }
            Refusal::NotSetUp(_) => "the server's fence is not set up; nothing was written".into(),
            Refusal::Unnamed(_) => {
                "the server cannot name the resource now; nothing was written; try again".into()
            }
            Refusal::Unavailable { resource, cause, .. } => match &**cause {
                FenceError::Busy { .. } | FenceError::Crowded { .. } => cause.to_string(),
                FenceError::Full { .. } => {
                    format!("no room for a high-water mark of {resource}; nothing was written")
                }
                FenceError::Closed(_) => {
                    "the high-water marks are closed until an operator opens them; nothing was written"
                        .into()
                }
                FenceError::Quarantine { .. } => format!("{cause}; nothing was written; try again"),
                FenceError::NoRuntime => {
                    "the server's fence can't run here; nothing was written".into()
                }
                FenceError::Unchecked { .. } => {
                    "the lock service cannot be asked about the token; nothing was written; try again"
                        .into()
                }
                FenceError::NoConnection(_) => {
                    "the server has no connection to its database free; nothing was written; try again".into()
                }
                _ => "the high-water marks are unreachable; nothing was written; try again".into(),
            },
            Refusal::Conflict(_) => {
                "another transaction was in the way, and this one was rolled back; try again".into()
            }
            Refusal::RolledBack(_) if self.passes() => {
                "the transaction was rolled back; nothing was written; try again".into()
            }
            Refusal::RolledBack(_) => "the transaction was rolled back; nothing was written".into(),
            Refusal::InDoubt(_) => {
                "the commit is in doubt: what the request wrote may or may not be stored; \
                 read before you try again"
                    .into()
            }
            Refusal::Kept => "the server kept the transaction open; nothing was written".into(),
            Refusal::Failed(_) => {
                "the write failed; it may or may not be stored; read before you try again".into()
            }
        }
    }

    fn problem(&self, style: &Style) -> Problem {
        let (kind, title) = self.kind();
        let (resource, presented, highest) = match self {
            Refusal::Stale(stale) | Refusal::Superseded(stale) => (
                Some(stale.resource.clone()),
                Some(stale.presented),
                (!style.hides_highest).then_some(stale.highest),
            ),
            Refusal::NotIssued(NotIssued { resource, presented, .. })
            | Refusal::Unavailable { resource, presented, .. } => {
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

    /// Writes the refusal into the head of a gRPC response, or into its trailers.
    pub(super) fn grpc_metadata(&self, style: &Style) -> HeaderMap {
        let mut metadata = HeaderMap::new();
        metadata.insert("grpc-status", HeaderValue::from(self.grpc_status()));
        if let Ok(message) = HeaderValue::try_from(grpc_text(&self.detail(style))) {
            metadata.insert("grpc-message", message);
        }
        self.problem(style).write_grpc(&mut metadata);
        metadata
    }

    /// Makes the response, with the body that `body` makes of its text.
    pub(super) fn answer<B>(
        self,
        style: &Style,
        body: impl FnOnce(Option<Bytes>) -> B,
    ) -> Response<B> {
        let mut headers = HeaderMap::new();
        let (status, text) = if style.grpc {
            headers = self.grpc_metadata(style);
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
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

/// Whether the connection broke, not a statement or a constraint: then another connection may do.
fn was_cut_off(cause: &(dyn Error + 'static)) -> bool {
    cause.is::<io::Error>() || cause.source().is_some_and(was_cut_off)
}
