//! What needs nothing but this process: memory nodes, memory marks, SQLite in memory, and mostly paused time.

mod driver;
mod http;
mod interleavings;
mod simulation;
mod visible;
