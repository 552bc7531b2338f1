//! The lease kept in SQL: one suite on SQLite, a real PostgreSQL and a real
//! MariaDB.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
// The suite is compiled once per database.
#![allow(clippy::duplicate_mod)]

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/clients.rs"]
mod clients;
mod common;
#[path = "../support/history/mod.rs"]
mod history;
#[path = "../support/mariadb.rs"]
mod mariadb;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/redis.rs"]
mod redis;
#[path = "../support/postgres.rs"]
mod server;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/cli.rs"]
mod support;

mod sqlite {
    mod own;
    #[allow(dead_code, reason = "other tests use the rest")]
    #[path = "../../sql/sqlite/place.rs"]
    mod place;
    #[path = "../suite/mod.rs"]
    mod suite;
    mod words;
}

mod postgres {
    mod conflicts;
    mod crash;
    #[allow(dead_code, reason = "other tests use the rest")]
    #[path = "../../sql/postgres/place.rs"]
    mod place;
    #[path = "../suite/mod.rs"]
    mod suite;
    mod words;
}

mod mysql {
    mod conflicts;
    mod crash;
    #[allow(dead_code, reason = "other tests use the rest")]
    #[path = "../../sql/mysql/place.rs"]
    mod place;
    mod sessions;
    #[path = "../suite/mod.rs"]
    mod suite;
    mod words;
}
