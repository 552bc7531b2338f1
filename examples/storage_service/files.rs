use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use fencing::http::{Fenced, HEADER};
use fencing::{Resource, ResourceError};
use percent_encoding::percent_decode_str;

use crate::app::App;
use crate::error::ApiError;

/// The one name of a file: whichever way its path is written, it is the same resource.
pub fn resource(uri: &Uri) -> Result<Resource, ResourceError> {
    let path = percent_decode_str(uri.path()).decode_utf8_lossy();
    Resource::new(path.trim_start_matches('/'))
}

/// `PUT /files/{name}`: stores the body.
pub async fn put(
    State(app): State<Arc<App>>,
    fenced: Option<Fenced>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    let (resource, token) = match fenced {
        Some(Fenced { resource, token }) => (resource, Some(token)),
        // Without the fence the token is only written down.
        None => {
            let text = headers.get(HEADER).and_then(|value| value.to_str().ok());
            (resource(&uri)?, text.and_then(|text| text.parse().ok()))
        }
    };
    app.store.write(&resource, token, &body).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /files/{name}`: the body, and the token of its last write in the header.
pub async fn get(State(app): State<Arc<App>>, uri: Uri) -> Result<Response, ApiError> {
    let file = app.store.read(&resource(&uri)?).await?;
    let file = file.ok_or(ApiError::NotFound("there is no such file"))?;
    let token: HeaderMap =
        file.token.map(|token| (HEADER, HeaderValue::from(token.get()))).into_iter().collect();
    Ok((token, file.body).into_response())
}
