use std::fmt::Display;

use axum::body::Body;
use axum::response::IntoResponse;
use fencing::http::Problem;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};

pub(crate) type HttpAnswer = Response<Body>;

/// Makes a response that no cache keeps.
pub(crate) fn response(status: StatusCode, kind: &'static str, text: impl Into<Body>) -> HttpAnswer {
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-store")];
    (status, headers, text.into()).into_response()
}

/// A kind of problem (RFC 9457).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProblemKind {
    status: StatusCode,
    kind: &'static str,
    /// After how many seconds the client may try again.
    retry_after: Option<u64>,
}

impl ProblemKind {
    pub(crate) const fn new(status: StatusCode, kind: &'static str) -> ProblemKind {
        ProblemKind { status, kind, retry_after: None }
    }

    pub(crate) const fn retry_after(self, seconds: u64) -> Self {
        ProblemKind { retry_after: Some(seconds), ..self }
    }

    pub(crate) fn because(self, why: impl Display) -> Refused {
        Refused { kind: self, why: why.to_string() }
    }
}

pub(crate) struct Refused {
    pub(crate) kind: ProblemKind,
    why: String,
}

impl IntoResponse for Refused {
    fn into_response(self) -> HttpAnswer {
        let ProblemKind { status, kind, retry_after } = self.kind;
        let problem = Problem::new(kind, status, self.why);
        let text = serde_json::to_string(&problem).unwrap_or_default();
        let mut answer = response(status, Problem::CONTENT_TYPE, text);
        if let Some(seconds) = retry_after {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer.extensions_mut().insert(problem);
        answer
    }
}

/// Gives a client of gRPC the problem of this process in a status of gRPC, as the fence does with its refusals.
pub(crate) fn in_grpc(answer: HttpAnswer) -> HttpAnswer {
    let Some(problem) = answer.extensions().get::<Problem>() else { return answer };
    let status = match problem.kind.as_str() {
        Problem::MALFORMED | Problem::NOT_ISSUED => INVALID_ARGUMENT,
        Problem::UNAVAILABLE if problem.status != StatusCode::INTERNAL_SERVER_ERROR => UNAVAILABLE,
        _ => UNKNOWN,
    };
    let mut head = problem.to_grpc(status);
    head.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    (head, Body::empty()).into_response()
}

const UNKNOWN: u16 = 2;
const INVALID_ARGUMENT: u16 = 3;
const UNAVAILABLE: u16 = 14;

/// The request can be read in more than one way, or in none.
pub(crate) const MALFORMED: ProblemKind = ProblemKind::new(StatusCode::BAD_REQUEST, Problem::MALFORMED);
