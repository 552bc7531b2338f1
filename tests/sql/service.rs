//! A service behind the fence, and what its clients are told.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use axum::routing::MethodRouter;
use fencing::fence::MemoryMarks;
use fencing::http;
use fencing::http::{FenceLayer, Problem, TransactionLayer};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::common::*;

pub type Answer = (StatusCode, Option<Problem>);

/// A server that opens a transaction for each request. It shares its fence with no other server.
pub fn server<T: Transactions>(storage: T, handler: MethodRouter) -> Router {
    behind(Fence::new(MemoryMarks::default()), handler.route_layer(TransactionLayer::new(storage)))
}

pub fn behind(fence: Fence, handler: MethodRouter) -> Router {
    Router::new().route("/files/{name}", handler.route_layer(FenceLayer::new(fence, http::path)))
}

pub fn request(path: &str, number: u64) -> Request<Body> {
    Request::put(path).header("fencing-token", number).body(Body::empty()).unwrap()
}

pub async fn answer(response: Response) -> Answer {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status, Problem::read(&parts.headers, &body).ok())
}

pub async fn send(app: &Router, path: &str, number: u64) -> Answer {
    answer(app.clone().oneshot(request(path, number)).await.unwrap()).await
}
