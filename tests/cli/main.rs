//! The command line on real servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod database;
mod database_down;
mod doctor;
mod doors;
mod examples;
mod fleet;
mod guard;
mod holders;
mod status;
mod terminal;
mod usage;
mod watch;
