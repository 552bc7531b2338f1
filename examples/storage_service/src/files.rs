use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use fencing::http::{Fenced, HEADER, path};

use crate::app::App;
use crate::error::ApiError;

/// `PUT /files/{name}`: stores the body.
pub async fn put(
    State(app): State<Arc<App>>,
    fenced: Option<Fenced>,
    request: Parts,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    let (resource, token) = match fenced {
        Some(Fenced { resource, token, .. }) => (resource, Some(token)),
        // Without the fence the token is only written down.
        None => {
            let text = request.headers.get(HEADER).and_then(|value| value.to_str().ok());
            (path(&request)?, text.and_then(|text| text.parse().ok()))
        }
    };
    app.store.write(&resource, token, &body).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `PUT /unfenced/{name}`: what a storage does that looks at no token, for the page.
pub async fn put_unfenced(State(app): State<Arc<App>>, request: Parts, body: Bytes) -> Result<StatusCode, ApiError> {
    app.store.write(&path(&request)?, None, &body).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /files/{name}`: the body, and the token of its last write in the header.
pub async fn get(State(app): State<Arc<App>>, request: Parts) -> Result<Response, ApiError> {
    let file = app.store.read(&path(&request)?).await?;
    let file = file.ok_or(ApiError::not_found("there is no such file"))?;
    let token: HeaderMap = file.token.map(|token| (HEADER, HeaderValue::from(token.get()))).into_iter().collect();
    Ok((token, file.body).into_response())
}
