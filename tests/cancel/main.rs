//! Every public future dropped after each number of polls, in this process. On real Redis
//! nodes: `tests/faults/dropped.rs`; of marks and migration: `tests/sql`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../support/clock.rs"]
mod clock;
mod fence;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../faulty/fleet.rs"]
mod fleet;
mod lock;
#[path = "../support/polled.rs"]
mod polled;
mod sql;
