//! Exhaustive search over the real `src/protocol`: see docs/reliability.md.

mod canon;
pub mod check;
mod desk;
mod explore;
mod lists;
mod moves;
mod mutant;
mod mutants;
pub mod node;
mod pool;
pub mod runs;
mod seam;
mod state;
mod steps;
mod world;
