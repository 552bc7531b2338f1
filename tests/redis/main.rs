//! Redlock, and high-water marks, on real redis-servers.

mod attacks;
mod faults;
mod holders;
mod marks;
mod notified;
mod runtimes;
mod scripts;
mod service;
mod shared;
mod urls;
