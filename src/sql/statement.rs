//! The fence's statements for use without `sqlx`. Each says what to bind, in this order; a token as a 64-bit integer.
//!
//! Run `ADMIT` in the transaction that writes, before it writes. If it succeeds, the token is admitted until that
//! transaction ends, as by [`admit`](super::admit()), whether it reports rows or not. If it fails, do not write:
//! roll back, and [`stale`](super::stale) reads from the library's error whether the token was stale.
//!
//! `is_retryable` says by an error's code whether the whole transaction may succeed when run again, `is_down` whether
//! the server went away. Then a commit may have happened: look before you run it again. A stale token is neither.
//!
//! See `examples/{orm,clients}` for diesel, sea-orm, tokio-postgres, psycopg, SQLAlchemy, PyMySQL and node-pg.

/// PostgreSQL.
#[cfg(feature = "postgres")]
pub mod postgres {
    pub use crate::database::postgres::PRESENT;
    use crate::database::postgres::meaning_of;
    use crate::database::{FenceStatements, Meaning, Schema};

    /// The SQLSTATE of a stale token.
    pub const STALE: &str = "ZF412";

    /// Admits: the resource as text, the token. Stale is SQLSTATE `ZF412`.
    pub const ADMIT: &str = "SELECT fencing_admit($1, $2)";

    /// Reads the mark, without a lock: the resource as text. No row means no mark.
    pub const HIGHEST: &str = sqlx::Postgres::HIGHEST;

    /// Creates the tables and functions, as [`migrations`](crate::sql::migrations) has it.
    pub const MIGRATIONS: &[(i64, &str, &str)] = sqlx::Postgres::MIGRATIONS;

    /// Returns whether there was a conflict with another transaction, by SQLSTATE: a serialization failure
    /// (40001), a deadlock (40P01), a lock that did not become free in time (55P03), or a mark that
    /// has to be raised in a transaction of its own first (ZF409, only from `fencing_begin`).
    pub fn is_retryable(sqlstate: &str) -> bool {
        sqlstate == "ZF409" || meaning_of(sqlstate) == Meaning::Conflict
    }

    /// Returns whether the server is down, starts, ends this session or takes no more, by SQLSTATE:
    /// class 08, 57P01 to 57P05, 53300. Without a SQLSTATE the server was not reached at all.
    pub fn is_down(sqlstate: &str) -> bool {
        matches!(meaning_of(sqlstate), Meaning::Closing | Meaning::Starting | Meaning::Unreached)
    }
}

/// MySQL and MariaDB.
#[cfg(feature = "mysql")]
pub mod mysql {
    use crate::database::mysql::meaning_of;
    pub use crate::database::mysql::{PRESENT, PRESENT_TOKEN};
    use crate::database::{FenceStatements, Meaning, Schema};

    /// The SQLSTATE of a stale token. Its number is 1644, as that of any refusal by a procedure.
    pub const STALE: &str = "ZF412";

    /// Admits: the resource as bytes (the connection's character set would alter a text), the token. Stale: `ZF412`.
    pub const ADMIT: &str = "CALL fencing_admit(?, ?)";

    /// Reads the mark, without a lock: the resource as bytes. No row means no mark.
    pub const HIGHEST: &str = sqlx::MySql::HIGHEST;

    /// Creates the tables and procedures, as [`migrations`](crate::sql::migrations) has it.
    pub const MIGRATIONS: &[(i64, &str, &str)] = sqlx::MySql::MIGRATIONS;

    /// Returns by the error's number whether another transaction conflicted: 1213 (deadlock, a cluster's conflict),
    /// 1205 (a lock was not free in time), 1020, 1412, 3572, 3101. Their SQLSTATEs do not help: only 1213 has 40001.
    pub fn is_retryable(number: u16) -> bool {
        meaning_of(number) == Meaning::Conflict
    }

    /// Returns whether the server is down, ends this session or takes no more, by the number of the
    /// error: 1053, 1927, 3169, 4031, 1040, 1203, and those that clients give by themselves: 2002, 2003, 2006, 2013.
    pub fn is_down(number: u16) -> bool {
        matches!(meaning_of(number), Meaning::Closing | Meaning::Unreached)
    }
}

/// SQLite. The write itself presents, in the column `fencing_token`: the text of a
/// [`Sequencer`](crate::sequencer::Sequencer), or a token.
#[cfg(feature = "sqlite")]
pub mod sqlite {
    use crate::database::sqlite::meaning_of;
    use crate::database::{FenceStatements, Meaning, Schema};

    /// Begins a transaction that is going to write: SQLite may refuse the first write of a deferred one that has read.
    pub const BEGIN: &str = sqlx::Sqlite::BEGIN;

    /// Admits: the resource as text, the token. Stale is an error of code 1 with a message.
    pub const ADMIT: &str = "INSERT INTO main.fencing_admit (resource, token) VALUES (?1, ?2)";

    /// Reads the mark, without a lock: the resource as text. No row means no mark.
    pub const HIGHEST: &str = sqlx::Sqlite::HIGHEST;

    /// Creates the tables and triggers, as [`migrations`](crate::sql::migrations) has it.
    pub const MIGRATIONS: &[(i64, &str, &str)] = sqlx::Sqlite::MIGRATIONS;

    /// Returns by the code, extended or not, if another transaction conflicted: BUSY (5), LOCKED (6), PROTOCOL (15).
    pub fn is_retryable(code: i32) -> bool {
        meaning_of(code) == Meaning::Conflict
    }
}
