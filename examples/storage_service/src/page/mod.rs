//! The page: two clients, the lock nodes, and the file twice, with the fence and without.

mod actor;
mod board;
mod nodes;
mod routes;

pub use routes::{Page, SCRIPT, file, from_the_page, router};
