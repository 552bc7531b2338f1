//! The lock between real processes, on real redis-servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod contention;
#[path = "../support/history/mod.rs"]
mod history;
mod scenario;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/cli.rs"]
mod support;

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/redis.rs"]
mod redis;
