//! The fence inside a database: one suite on SQLite, a real PostgreSQL and a
//! real MariaDB.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
// The suite is compiled once per database.
#![allow(clippy::duplicate_mod)]

#[path = "../support/clients.rs"]
mod clients;
mod common;
#[path = "../support/mariadb.rs"]
mod mariadb;
#[path = "../support/postgres.rs"]
mod server;
mod tls;

mod sqlite {
    mod own;
    mod place;
    #[path = "../suite/mod.rs"]
    mod suite;
}

mod postgres {
    mod conflicts;
    mod crash;
    mod locks;
    mod marks;
    mod place;
    mod snapshots;
    #[path = "../suite/mod.rs"]
    mod suite;
}

mod mysql {
    mod crash;
    mod own;
    mod place;
    #[path = "../suite/mod.rs"]
    mod suite;
}
