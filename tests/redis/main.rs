//! Redlock on real redis-servers.

mod attacks;
mod faults;
mod holders;
mod runtimes;
mod scripts;
mod service;
mod shared;
mod told;
mod urls;
