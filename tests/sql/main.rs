//! The fence inside a database: one suite on SQLite, a real PostgreSQL and a real MariaDB.

// The suite is compiled once per database.
#![allow(clippy::duplicate_mod)]

mod common;
mod galera;
mod service;

mod sqlite {
    pub use support::place::sqlite as place;

    mod connections;
    #[path = "../setup.rs"]
    mod setup;
    #[path = "../suite/mod.rs"]
    mod suite;
    mod tables;
    mod triggers;
}

mod postgres {
    pub use support::place::postgres as place;
    use support::postgres::PostgresServer as Server;

    mod bulk;
    mod commits;
    mod locks;
    mod marks;
    mod paths;
    mod pooler;
    mod prune;
    mod restore;
    mod rights;
    #[path = "../server/mod.rs"]
    mod server;
    #[path = "../setup.rs"]
    mod setup;
    mod shadow;
    #[path = "../suite/mod.rs"]
    mod suite;
    mod trees;
    mod triggers;
    #[path = "../zombies.rs"]
    mod zombies;
}

mod mysql {
    use support::mariadb::MariadbServer as Server;
    pub use support::place::mysql as place;

    mod prune;
    mod rights;
    #[path = "../server/mod.rs"]
    mod server;
    mod sessions;
    #[path = "../setup.rs"]
    pub mod setup;
    mod shares;
    #[path = "../suite/mod.rs"]
    pub mod suite;
    mod triggers;
    #[path = "../zombies.rs"]
    mod zombies;
}
