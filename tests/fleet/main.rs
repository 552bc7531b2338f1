//! Fleets on real servers: their start, their states in words, and the move to other nodes
//! while clients hold leases.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod admit;
mod crew;
#[path = "../support/history/mod.rs"]
mod history;
mod init;
mod moves;
mod place;
mod states;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/cli.rs"]
mod support;
mod words;

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/redis.rs"]
mod redis;
