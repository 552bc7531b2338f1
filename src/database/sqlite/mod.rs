mod dialect;
mod fence;
mod lease;
mod protect;
mod schema;

pub use self::dialect::{meaning, meaning_of};
