use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use fencing::http::{Problem, Refusal};
use fencing::lock::AcquireError;
use fencing::sql;
use serde_json::json;

pub enum ApiError {
    Refused(Box<Refusal>),
    /// It says after how many seconds another try may help, if one may.
    Failed(StatusCode, String, Option<u128>),
}

impl ApiError {
    pub fn new(status: StatusCode, detail: impl ToString) -> ApiError {
        let retry_after = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1);
        ApiError::Failed(status, detail.to_string(), retry_after)
    }

    pub fn bad(detail: impl ToString) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, detail)
    }

    pub fn not_found(detail: &str) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, detail)
    }

    pub fn unavailable(detail: impl ToString) -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, detail, retry_after) = match self {
            ApiError::Refused(refusal) => return refusal.into_response(),
            ApiError::Failed(status, detail, retry_after) => (status, detail, retry_after),
        };
        let (title, number) = (status.canonical_reason(), status.as_u16());
        let problem = json!({ "type": "about:blank", "title": title, "status": number, "detail": detail });
        let kind = [(header::CONTENT_TYPE, Problem::CONTENT_TYPE)];
        let wait = retry_after.map(|seconds| [(header::RETRY_AFTER, seconds.to_string())]);
        (status, kind, wait, problem.to_string()).into_response()
    }
}

impl From<AcquireError> for ApiError {
    fn from(error: AcquireError) -> ApiError {
        match &error {
            AcquireError::Held { retry_after, .. } => {
                let seconds = retry_after.as_millis().div_ceil(1000).max(1);
                ApiError::Failed(StatusCode::CONFLICT, error.to_string(), Some(seconds))
            }
            _ => ApiError::unavailable(error),
        }
    }
}

impl From<sql::AdmitError> for ApiError {
    fn from(error: sql::AdmitError) -> ApiError {
        ApiError::Refused(Box::new(error.into()))
    }
}

impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> ApiError {
        sql::AdmitError::from(error).into()
    }
}
