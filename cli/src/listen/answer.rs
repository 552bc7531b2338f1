use std::fmt::Display;

use axum::body::Body;
use axum::response::IntoResponse;
use fencing::http::Problem;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

pub(crate) type HttpAnswer = Response<Body>;

/// Makes an answer that no cache keeps.
pub(crate) fn answer(status: StatusCode, kind: &'static str, text: impl Into<Body>) -> HttpAnswer {
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-store")];
    (status, headers, text.into()).into_response()
}

/// A kind of problem (RFC 9457).
#[derive(Clone, Copy)]
pub(crate) struct ProblemKind {
    status: StatusCode,
    kind: &'static str,
    title: &'static str,
    /// After how many seconds the client may try again.
    retry_after: Option<u64>,
}

impl ProblemKind {
    pub(crate) const fn new(status: StatusCode, kind: &'static str, title: &'static str) -> Self {
        ProblemKind { status, kind, title, retry_after: None }
    }

    pub(crate) const fn retry_after(self, seconds: u64) -> Self {
        ProblemKind { retry_after: Some(seconds), ..self }
    }

    pub(crate) fn answer(self, detail: impl Display) -> HttpAnswer {
        let ProblemKind { status, kind, title, retry_after } = self;
        let (number, detail) = (status.as_u16(), detail.to_string());
        let text = json!({ "type": kind, "title": title, "status": number, "detail": detail });
        let mut answer = answer(status, Problem::CONTENT_TYPE, text.to_string());
        if let Some(seconds) = retry_after {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}

/// The request can be read in more than one way, or in none.
pub(crate) const MALFORMED: ProblemKind =
    ProblemKind::new(StatusCode::BAD_REQUEST, Problem::MALFORMED, "Malformed request");
