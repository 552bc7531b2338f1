//! Redlock, and high-water marks, on real redis-servers.

mod attacks;
mod fleet;
mod holders;
mod hostile;
mod marks;
mod notified;
mod runtimes;
mod scripts;
mod service;
mod urls;
