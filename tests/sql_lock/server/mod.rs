//! What holds on every database that is a server.

pub mod conflicts;
pub mod crash;

use super::{place, suite, words};
