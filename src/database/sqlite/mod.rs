//! SQLite.

mod dialect;
mod errors;
mod fence;
mod lease;
mod protect;
mod schema;

pub use self::errors::{is_conflict, meaning};
pub use self::fence::{BEGIN, HIGHEST};
