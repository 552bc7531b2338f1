//! What holds on every database that is a server.

pub mod conflicts;
mod crash;

use super::{Server, place, words};
