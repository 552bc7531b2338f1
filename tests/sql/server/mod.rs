//! What holds on every database that is a server.

mod crash;
pub mod rights;
pub mod waits;

use super::{Server, place, rights as words, setup};
