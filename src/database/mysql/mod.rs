//! MySQL and MariaDB.

mod dialect;
mod fence;
mod lease;
mod protect;
mod schema;

pub use self::dialect::{is_closing, is_conflict, meaning};
pub use self::fence::{HIGHEST, PRESENT, PRESENT_TOKEN};
