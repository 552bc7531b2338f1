//! Redlock, and high-water marks, on real redis-servers.

mod attacks;
mod faults;
mod fleet;
mod holders;
mod marks;
mod notified;
mod proxy;
mod runtimes;
mod scripts;
mod service;
mod shared;
mod urls;
