use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use fencing::http::{PathError, Problem, Refusal};
use fencing::lock::{AcquireError, redlock::BuildError};
use fencing::{ResourceError, sql};
use serde_json::json;

/// What a request may come to besides success.
pub enum ApiError {
    Refused(Box<Refusal>),
    Bad(String),
    FromAPage,
    NotJson,
    NotFound(&'static str),
    Held { detail: String, retry_after_ms: u128 },
    Unavailable(String),
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, detail, retry_after) = match self {
            ApiError::Refused(refusal) => return refusal.into_response(),
            ApiError::Bad(detail) => (StatusCode::BAD_REQUEST, detail, None),
            ApiError::FromAPage => (StatusCode::FORBIDDEN, "web pages get no leases".into(), None),
            ApiError::NotJson => {
                let detail = "send the body as Content-Type: application/json";
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, detail.into(), None)
            }
            ApiError::NotFound(detail) => (StatusCode::NOT_FOUND, detail.into(), None),
            ApiError::Held { detail, retry_after_ms } => {
                (StatusCode::CONFLICT, detail, Some(retry_after_ms.div_ceil(1000).max(1)))
            }
            ApiError::Unavailable(detail) => (StatusCode::SERVICE_UNAVAILABLE, detail, Some(1)),
        };
        let title = status.canonical_reason().unwrap_or_default();
        let status_number = status.as_u16();
        let problem = json!({
            "type": "about:blank", "title": title, "status": status_number, "detail": detail,
        });
        let kind = [(header::CONTENT_TYPE, Problem::CONTENT_TYPE)];
        match retry_after {
            Some(seconds) => {
                let wait = [(header::RETRY_AFTER, seconds.to_string())];
                (status, kind, wait, problem.to_string()).into_response()
            }
            None => (status, kind, problem.to_string()).into_response(),
        }
    }
}

/// What the client has asked for in a wrong way.
macro_rules! bad {
    ($($error:ty),*) => { $(
        impl From<$error> for ApiError {
            fn from(error: $error) -> ApiError {
                ApiError::Bad(error.to_string())
            }
        }
    )* };
}

bad!(ResourceError, PathError, BuildError);

impl From<AcquireError> for ApiError {
    fn from(error: AcquireError) -> ApiError {
        let detail = error.to_string();
        match error {
            AcquireError::Held { retry_after, .. } => {
                ApiError::Held { detail, retry_after_ms: retry_after.as_millis() }
            }
            _ => ApiError::Unavailable(detail),
        }
    }
}

impl From<sql::AdmitError> for ApiError {
    fn from(error: sql::AdmitError) -> ApiError {
        match error {
            sql::AdmitError::Stale(stale) => ApiError::Refused(Box::new(Refusal::Stale(stale))),
            error => unavailable(&error),
        }
    }
}

impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> ApiError {
        unavailable(&error)
    }
}

/// The cause goes to the log, not to the client.
fn unavailable(error: &dyn std::error::Error) -> ApiError {
    tracing::error!(%error, "the database failed");
    ApiError::Unavailable("the database failed; a write may or may not have been stored".into())
}
