//! Redlock, and high-water marks, on real redis-servers.

mod attacks;
mod dropped;
mod fleet;
mod holders;
mod hostile;
mod marks;
mod notified;
mod proxy;
mod runtimes;
mod scripts;
mod service;
mod shared;
mod urls;
