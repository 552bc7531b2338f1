//! The fence inside a database: one suite on SQLite, a real PostgreSQL and a
//! real MariaDB.

// The suite is compiled once per database.
#![allow(clippy::duplicate_mod)]

mod common;
mod galera;
mod rounds;

mod sqlite {
    use support::place::sqlite as place;

    mod own;
    #[path = "../suite/mod.rs"]
    mod suite;
    mod tables;
    mod triggers;
}

mod postgres {
    use support::place::postgres as place;

    mod bulk;
    mod commits;
    mod conflicts;
    mod crash;
    mod locks;
    mod marks;
    mod migrating;
    mod paths;
    mod pooler;
    mod prune;
    mod restore;
    mod rights;
    mod snapshots;
    #[path = "../suite/mod.rs"]
    mod suite;
    mod trees;
    mod triggers;
    #[path = "../users.rs"]
    mod users;
    #[path = "../zombies.rs"]
    mod zombies;
}

mod mysql {
    use support::place::mysql as place;

    mod bulk;
    mod commits;
    mod crash;
    mod interrupted;
    mod migrating;
    mod own;
    mod prune;
    mod rights;
    mod shadows;
    mod shares;
    #[path = "../suite/mod.rs"]
    mod suite;
    mod triggers;
    #[path = "../users.rs"]
    mod users;
    #[path = "../zombies.rs"]
    mod zombies;
}
