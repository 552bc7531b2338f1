//! The lock on real redis-servers whose counts are out of step, whose company is hostile,
//! and with callers that give up at any point.

mod ahead;
mod dropped;
mod hostile;
mod shifted;
mod skew;

use std::time::Duration;

use fencing::lock::redlock::RedlockBuilder;
use fencing::{Redlock, Resource};
use support::redis::RedisServer;

const TTL: Duration = Duration::from_secs(2);

fn service(servers: &[RedisServer]) -> RedlockBuilder {
    Redlock::builder().first_start(true).redis(servers.iter().map(RedisServer::url)).ttl(TTL)
}

fn resource() -> Resource {
    Resource::new("invoice/42").unwrap()
}
