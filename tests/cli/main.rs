//! The command line on real servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod acceptance;
mod by_url;
mod database;
mod database_down;
mod doctor;
mod doors;
mod ends;
mod examples;
mod fleet;
mod guard;
mod holders;
mod loss;
mod signals;
mod status;
mod terminal;
mod tls;
mod usage;
mod watch;
