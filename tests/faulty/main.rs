//! Redlock over nodes that fail as told, in paused time: what is measured here is the
//! runtime's clock, and exact.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "../support/clock.rs"]
mod clock;
mod clocks;
mod fleet;
mod hung;
mod lost;
mod queue;
mod watchdog;
