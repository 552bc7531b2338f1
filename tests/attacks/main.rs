//! What once broke the order of the tokens, or let two leases be valid at once, without more
//! nodes having forgotten than the promise allows: docs/reliability.md tells of each.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod collections;
mod lists;
mod moves;
mod promises;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/redis.rs"]
mod redis;
mod restarts;
mod starts;
mod world;
