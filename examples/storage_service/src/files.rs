use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use fencing::http::{Fenced, HEADER, path};
use fencing::{Resource, Token};

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
            (path(&request).map_err(ApiError::bad)?, text.and_then(|text| text.parse().ok()))
        }
    };
    write(&app, &resource, token, body).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `PUT /unfenced/{name}`: what a storage does that looks at no token, for the page.
pub async fn put_unfenced(State(app): State<Arc<App>>, request: Parts, body: Bytes) -> Result<StatusCode, ApiError> {
    let name = path(&request).map_err(ApiError::bad)?;
    write(&app, &name, None, body).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn write(app: &App, file: &Resource, token: Option<Token>, body: Bytes) -> Result<(), ApiError> {
    match &app.objects {
        Some(objects) => objects.write(file, token, body).await,
        None => Ok(app.store.write(file, token, &body).await?),
    }
}

/// `GET /files/{name}`: the body, and the token of its last write in the header, if the files are in a database.
pub async fn get(State(app): State<Arc<App>>, request: Parts) -> Result<Response, ApiError> {
    let name = path(&request).map_err(ApiError::bad)?;
    if let Some(objects) = &app.objects {
        return Ok(objects.read(&name).await?.into_response());
    }
    let file = app.store.read(&name).await?;
    let file = file.ok_or(ApiError::not_found("there is no such file"))?;
    let token: HeaderMap = file.token.map(|token| (HEADER, HeaderValue::from(token.get()))).into_iter().collect();
    Ok((token, file.body).into_response())
}
