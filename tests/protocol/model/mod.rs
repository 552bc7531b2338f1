//! Exhaustive search over the real `src/protocol`: see docs/reliability.md.

mod canon;
mod check;
mod desk;
mod explore;
mod lists;
mod moves;
mod mutant;
mod mutants;
mod node;
mod pool;
mod runs;
mod seam;
mod state;
mod steps;
mod world;
