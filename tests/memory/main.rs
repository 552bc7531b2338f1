//! What needs nothing but this process: memory nodes, memory marks, SQLite in memory, and mostly paused time.

mod driver;
mod first_use;
mod http;
mod interleavings;
mod simulation;
mod visible;
