//! SQLite.

mod dialect;
mod fence;
mod lease;
mod protect;
mod schema;

pub use self::dialect::{is_conflict, meaning};
pub use self::fence::{BEGIN, HIGHEST};
