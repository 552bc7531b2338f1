//! Where a suite runs that holds on every database: one module for each of them, with the same names in it. What they
//! are is said once: in `postgres.rs`, `server.rs` and `alike.rs`.

use sqlx::{Database, Pool};

mod alike;
pub mod mysql;
pub mod postgres;
pub mod sqlite;

/// A pool of one connection, with the settings of another pool.
pub fn single<DB: Database>(pool: &Pool<DB>) -> Pool<DB> {
    let options = pool.options().clone().max_connections(1);
    options.connect_lazy_with((*pool.connect_options()).clone())
}

pub const VERSIONS: &[i64] = &[1, 2, 3, 4, 5];
