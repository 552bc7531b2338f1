//! Storage side: what refuses a write whose token is older than the highest seen.

mod marks;
mod stale;

pub use marks::{Marks, MarksError};
pub use stale::Stale;
