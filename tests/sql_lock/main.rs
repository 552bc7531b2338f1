//! The lease kept in SQL: one suite on SQLite, a real PostgreSQL and a real
//! MariaDB.
// The suite is compiled once per database.
#![allow(clippy::duplicate_mod)]

mod common;

mod sqlite {
    mod own;
    use support::place::sqlite as place;
    #[path = "../suite/mod.rs"]
    mod suite;
    mod words;
}

mod postgres {
    mod conflicts;
    mod crash;
    use support::place::postgres as place;
    #[path = "../suite/mod.rs"]
    mod suite;
    mod words;
}

mod mysql {
    mod conflicts;
    mod crash;
    use support::place::mysql as place;
    mod sessions;
    #[path = "../suite/mod.rs"]
    mod suite;
    mod words;
}
