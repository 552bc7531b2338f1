//! Where a suite runs that holds on every database: one module for each of them, with the same
//! names in it.

mod alike;
pub mod mysql;
pub mod postgres;
pub mod sqlite;

/// The migrations.
pub const VERSIONS: &[i64] = &[1, 2, 3, 4, 5];
