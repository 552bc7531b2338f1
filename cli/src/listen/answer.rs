use axum::body::Body;
use fencing::http::Problem;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

/// An answer of this program's own.
pub(crate) type HttpAnswer = Response<Body>;

/// Makes an answer that no cache keeps.
pub(crate) fn answer(status: StatusCode, kind: &'static str, text: impl Into<Body>) -> HttpAnswer {
    let mut answer = Response::new(text.into());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Makes a problem (RFC 9457). With `retry_after` the client may try again after this many seconds.
pub(crate) fn problem(
    status: StatusCode,
    (kind, title): (&str, &str),
    detail: &str,
    retry_after: Option<u64>,
) -> HttpAnswer {
    let number = status.as_u16();
    let text = json!({ "type": kind, "title": title, "status": number, "detail": detail });
    let mut answer = answer(status, Problem::CONTENT_TYPE, text.to_string());
    if let Some(seconds) = retry_after {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}
