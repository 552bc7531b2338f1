//! The lock on real redis-servers whose counts are out of step, whose company is hostile,
//! and with callers that give up at any point.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod dropped;
mod hostile;
#[path = "../support/polled.rs"]
mod polled;
mod shifted;
mod skew;

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/redis.rs"]
mod redis;

use std::time::Duration;

use fencing::lock::redlock::RedlockBuilder;
use fencing::{Redlock, Resource};
use redis::RedisServer;

const TTL: Duration = Duration::from_secs(2);

fn service(servers: &[RedisServer]) -> RedlockBuilder {
    Redlock::builder().first_start(true).redis(servers.iter().map(RedisServer::url)).ttl(TTL)
}

fn resource() -> Resource {
    Resource::new("invoice/42").unwrap()
}
