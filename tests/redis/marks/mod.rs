//! High-water marks in a Redis, and the writes that they fence.

mod forgotten;
mod whole;

use std::time::Duration;

use fencing::fence::{FenceError, Marks, Stale};
use fencing::redis::{Closed, FencedError, RedisMarks};
use fencing::{Resource, Token};
use support::lease::token;
use support::ports::free_ports;
use support::redis::RedisServer;

const MARKS: &str = "{files}:marks";

fn file() -> Resource {
    Resource::new("files/a").unwrap()
}

/// Marks on this server, on a connection of their own. A busy machine may be slow.
fn marks(server: &RedisServer) -> RedisMarks {
    RedisMarks::new(&server.url(), "files").unwrap().budget(Duration::from_secs(30))
}

async fn opened(server: &RedisServer) -> RedisMarks {
    let marks = marks(server);
    marks.open(&marks.look().await.unwrap(), None).await.unwrap();
    marks
}

/// Writes to `{files}:a` under a token of `files/a`.
async fn set(marks: &RedisMarks, number: u64, value: &str) -> Result<(), FencedError> {
    marks.fenced_set(&file(), token(number), "{files}:a", value).await
}

/// A new server whose marks are open.
async fn started() -> (RedisServer, RedisMarks) {
    let server = RedisServer::start();
    let marks = opened(&server).await;
    (server, marks)
}

fn stale(error: FencedError) -> Stale {
    let FencedError::Stale(stale) = error else { panic!("{error}") };
    stale
}

fn closed<T: std::fmt::Debug>(outcome: Result<T, FencedError>) -> Closed {
    let error = outcome.unwrap_err();
    let FencedError::Closed(closed) = error else { panic!("{error}") };
    closed
}
