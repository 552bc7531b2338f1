//! What the tests share: private servers, processes, clocks, and the checker of histories.

// What databases that are servers have in common is compiled once for each.
#![allow(clippy::duplicate_mod)]

pub mod cli;
pub mod clients;
pub mod clock;
pub mod etcd;
pub mod history;
pub mod http;
mod keeper;
pub mod lease;
pub mod mariadb;
pub mod objects;
pub mod place;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod redis;
pub mod requests;
pub mod waiting;
pub mod zookeeper;
