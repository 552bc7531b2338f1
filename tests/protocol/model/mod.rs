//! The real `protocol` in small worlds, step by step: see docs/assurance/reliability.md. Tests search all of their states.

#[cfg(test)]
mod canon;
pub mod cases;
#[cfg(test)]
pub mod check;
pub mod lists;
pub mod mutant;
#[cfg(test)]
mod mutants;
pub mod node;
pub mod pool;
#[cfg(test)]
pub mod runs;
pub mod schedules;
pub mod script;
pub mod seam;
pub mod state;
pub mod steps;
pub mod world;
