//! The high-water marks of a fence over HTTP, for operators: list, show, raise. They are never lowered.
//!
//! `marks_admin 127.0.0.1:8081`, and then `curl -X PUT -H 'Fencing-Token: 40' http://127.0.0.1:8081/marks/files/a`:
//! from then on a client that sleeps with token 39 is refused when it wakes up.

use anyhow::Context;
use axum::extract::{MatchedPath, OriginalUri, Path, Query, State};
use axum::routing::{get, put};
use axum::{Json, Router, http::StatusCode};
use fencing::fence::MemoryMarks;
use fencing::http::{self, FenceLayer, Fenced};
use fencing::{Fence, Resource, Token};

#[derive(serde::Deserialize)]
struct Page {
    after: Option<Resource>,
    limit: Option<u16>,
}

#[derive(serde::Serialize)]
struct Mark {
    resource: Resource,
    token: Token,
}

type Answer<T> = Result<Json<T>, StatusCode>;

async fn list(State(fence): State<Fence>, Query(page): Query<Page>) -> Answer<Vec<Mark>> {
    let marks = fence.marks().list(page.after.as_ref(), page.limit.unwrap_or(100).into()).await;
    let marks = marks.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?.into_iter();
    Ok(Json(marks.map(|(resource, token)| Mark { resource, token }).collect()))
}

async fn show(State(fence): State<Fence>, Path(resource): Path<Resource>) -> Answer<Mark> {
    let token = fence.marks().highest(&resource).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(Json(Mark { token: token.ok_or(StatusCode::NOT_FOUND)?, resource }))
}

/// The layer has admitted the token: the mark is raised.
async fn raised(Fenced { resource, token, .. }: Fenced) -> Json<Mark> {
    Json(Mark { resource, token })
}

/// Put your own authentication around it.
pub fn admin(fence: Fence) -> Router {
    let name = http::matched::<MatchedPath, OriginalUri>(MatchedPath::as_str, "{name}");
    let mark = put(raised).route_layer(FenceLayer::new(fence.clone(), name)).get(show);
    Router::new().route("/marks", get(list)).route("/marks/{*name}", mark).with_state(fence)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let address = std::env::args().nth(1).context("usage: marks_admin ADDRESS")?;
    // A ceiling above every token that the lock service will issue refuses a typo.
    let fence = Fence::new(MemoryMarks::default()).ceiling(Token::new(1_000_000_000)?);
    let listener = tokio::net::TcpListener::bind(address).await?;
    axum::serve(listener, admin(fence)).await?;
    Ok(())
}
