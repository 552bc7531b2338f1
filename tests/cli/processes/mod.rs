//! The lock between real processes, on real redis-servers.

mod contention;
mod scenario;
