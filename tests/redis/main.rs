//! Redlock on real redis-servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod attacks;
mod faults;
mod runtimes;
mod scripts;
mod service;
mod urls;
