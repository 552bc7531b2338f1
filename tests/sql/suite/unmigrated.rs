//! A service whose database nobody has migrated: its answers say that nothing was stored, and ask for no other try.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use axum::routing::{MethodRouter, put};
use fencing::Fence;
use fencing::fence::MemoryMarks;
use fencing::http::{self, FenceLayer, Fenced, InTransaction, Problem, Refusal, TransactionLayer};
use fencing::sql::SqlMarks;
use http_body_util::BodyExt;
use tower::ServiceExt;

use super::*;

async fn is_not_set_up(handler: MethodRouter) {
    let app = Router::new().route("/files/{name}", handler);
    let request = Request::put("/files/a").header("fencing-token", "34");
    let response = app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let problem = Problem::read(&parts.headers, &body).unwrap();
    assert_eq!(parts.status, StatusCode::INTERNAL_SERVER_ERROR, "{problem:?}");
    assert_eq!(parts.headers.get(header::RETRY_AFTER), None);
    assert_eq!(problem.kind, Problem::UNAVAILABLE);
    assert!(problem.detail.ends_with("nothing was written"), "{problem:?}");
}

#[tokio::test]
async fn a_service_without_its_tables_is_set_up_wrongly() {
    let place = Place::empty().await;
    let memory = || FenceLayer::new(Fence::new(MemoryMarks::default()), http::path);
    let pool = place.pool.clone();
    let handler = put(move |fenced: Fenced| async move {
        drop(sql::begin(&pool, &fenced.resource, fenced.token).await?);
        Ok::<_, Refusal>("written")
    });
    is_not_set_up(handler.route_layer(memory())).await;
    let handler = put(|_: InTransaction<sqlx::Pool<Db>>| async { "written" });
    let handler = handler.route_layer(TransactionLayer::new(place.pool.clone()));
    is_not_set_up(handler.route_layer(memory())).await;
    let fence = Fence::new(SqlMarks::new(place.pool.clone()));
    let handler = put(|| async { "written" });
    is_not_set_up(handler.route_layer(FenceLayer::new(fence, http::path))).await;
}
