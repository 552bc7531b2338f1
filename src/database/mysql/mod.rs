//! MySQL and MariaDB.

mod dialect;
mod errors;
mod fence;
mod lease;
mod protect;
mod schema;

pub use self::errors::{is_closing, is_conflict, meaning};
pub use self::fence::{HIGHEST, PRESENT, PRESENT_TOKEN};
