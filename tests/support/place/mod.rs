//! Where a suite runs that holds on every database: one module for each of them, with the same
//! names in it.

pub mod mysql;
pub mod postgres;
pub mod sqlite;
