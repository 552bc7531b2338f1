//! The simulator: the real protocol, one step at a time, with a rule left out or not.

mod lists;
mod locks;
mod play;
mod routes;
mod rules;
mod scene;
mod words;

pub use routes::router;
