//! Every public future dropped after each number of polls, in this process. On real Redis
//! nodes: `tests/redis/faults/dropped.rs`; of marks and migration: `tests/sql`.

mod fence;
mod lock;
mod sql;
