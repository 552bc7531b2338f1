//! Stands in for a database whose feature is off.

use sqlx::error::DatabaseError;

use super::backend::Refusal;

#[allow(dead_code, reason = "none may be off")]
pub(super) fn refusal(_: &dyn DatabaseError) -> Option<Refusal> {
    None
}
