//! The lease kept in SQL: one suite on SQLite, a real PostgreSQL and a real MariaDB.

// The suite is compiled once per database.
#![allow(clippy::duplicate_mod)]

mod common;

mod sqlite {
    use support::place::sqlite as place;

    mod file;
    mod late;
    #[path = "../suite/mod.rs"]
    mod suite;
    mod words;
}

mod postgres {
    use support::place::postgres as place;

    mod crash;
    mod notifications;
    #[path = "../server/mod.rs"]
    mod server;
    #[path = "../suite/mod.rs"]
    mod suite;
    mod words;
}

mod mysql {
    use support::place::mysql as place;

    mod conflicts;
    #[path = "../server/mod.rs"]
    mod server;
    mod sessions;
    #[path = "../suite/mod.rs"]
    mod suite;
    mod words;
}
