//! The command line on real servers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod acceptance;
mod database;
mod ends;
#[path = "../support/history/mod.rs"]
mod history;
mod loss;
mod nemesis;
mod nodes;
mod signals;
mod sql_lease;
mod status;
#[path = "../support/cli.rs"]
mod support;
mod terminal;

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/clients.rs"]
mod clients;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/mariadb.rs"]
mod mariadb;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/postgres.rs"]
mod postgres;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/redis.rs"]
mod redis;
