//! The fence inside a database: one suite on SQLite, a real PostgreSQL and a
//! real MariaDB.
// The suite is compiled once per database.
#![allow(clippy::duplicate_mod)]

mod common;

mod sqlite {
    mod own;
    use support::place::sqlite as place;
    #[path = "../suite/mod.rs"]
    mod suite;
}

mod postgres {
    mod conflicts;
    mod crash;
    mod locks;
    mod marks;
    use support::place::postgres as place;
    mod snapshots;
    #[path = "../suite/mod.rs"]
    mod suite;
}

mod mysql {
    mod crash;
    mod own;
    use support::place::mysql as place;
    #[path = "../suite/mod.rs"]
    mod suite;
}
