//! Exhaustive search over the real `src/quorum`: see docs/reliability.md.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod canon;
mod check;
mod law;
mod mutant;
mod mutants;
mod pool;
mod runs;
mod state;
mod steps;
mod world;
