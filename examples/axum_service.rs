//! A file store behind the fence, with axum. It keeps the files and the marks in memory.
//!
//! `axum_service 127.0.0.1:8080`, and then
//! `curl -X PUT -H 'Fencing-Token: 34' --data two http://127.0.0.1:8080/files/a`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use axum::{Router, extract::State, http::StatusCode, routing::get};
use fencing::fence::MemoryMarks;
use fencing::http::{self, FenceLayer, Fenced};
use fencing::{Fence, Resource};
use tokio::net::TcpListener;

type Files = Arc<Mutex<HashMap<Resource, String>>>;

async fn read(State(files): State<Files>, Fenced { resource, .. }: Fenced) -> Result<String, StatusCode> {
    let files = files.lock().unwrap_or_else(PoisonError::into_inner);
    files.get(&resource).cloned().ok_or(StatusCode::NOT_FOUND)
}

/// Stale writes, and writes without a token, do not come here.
async fn write(State(files): State<Files>, fenced: Fenced, body: String) -> StatusCode {
    let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
    files.insert(fenced.resource, body);
    StatusCode::NO_CONTENT
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let address = std::env::args().nth(1).context("usage: axum_service ADDRESS")?;
    // A client that stops in the middle of its upload holds up the next one for a second.
    let fence = Fence::new(MemoryMarks::default()).drop_older_after(Duration::from_secs(1));
    let layer = FenceLayer::new(fence, http::path);
    let app =
        Router::new().route("/files/{name}", get(read).put(write).route_layer(layer)).with_state(Files::default());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}
