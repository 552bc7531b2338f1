//! The example storage service as a process: the play, its HTTP, and the stale client.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod http;
mod play;
mod service;
mod shutdown;
mod stale;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/cli.rs"]
mod support;

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/mariadb.rs"]
mod mariadb;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/postgres.rs"]
mod postgres;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/redis.rs"]
mod redis;
