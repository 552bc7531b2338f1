//! What holds on every database that is a server.

mod crash;
mod restore;
pub mod rights;
pub mod triggers;
pub mod waits;

use super::suite::writers;
use super::{Server, place, rights as words, setup, triggers as trigger_words};
