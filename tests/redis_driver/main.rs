//! What the scripts and sessions of Redis nodes add to the law, on real servers. Each test fails
//! where one rule of a script or of a session is taken out. Nothing here is timed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod closed;
mod counts;
mod delay;
mod full;
mod lives;
mod member;
mod numbers;
mod out;
mod race;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/redis.rs"]
mod redis;
mod settings;
mod shim;
mod ttl;

use fencing::Resource;

fn resource() -> Resource {
    Resource::new("invoice/42").unwrap()
}
