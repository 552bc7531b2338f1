//! The statements of the fence as text, for libraries other than `sqlx`. Each says what to
//! bind, in this order; bind a token as a 64-bit integer.
//!
//! Run `ADMIT` in the transaction that writes, before it writes. If it succeeds the token is
//! admitted until that transaction ends, as by [`admit`](super::admit()), whatever rows and
//! counts it reports. If it fails do not write: roll back, and [`stale`](super::stale) reads
//! from the library's error whether the token was stale.
//!
//! See `examples/orm` in the repository, for diesel and sea-orm.

/// PostgreSQL.
#[cfg(feature = "postgres")]
pub mod postgres {
    use crate::database::FenceStatements;

    /// Admits: the resource as text, the token. Stale is SQLSTATE `ZF412`.
    pub const ADMIT: &str = "SELECT fencing_admit($1, $2)";

    /// Presents to the triggers of protected tables until the transaction ends: the text of a
    /// [`Sequencer`](crate::sequencer::Sequencer), which counts for rows of its resource, or a
    /// token in digits, which counts for all.
    pub const PRESENT: &str = "SELECT set_config('fencing.sequencer',
        '@' || extract(epoch FROM transaction_timestamp()) || ' ' || $1, true)";

    /// Reads the mark, without a lock: the resource as text. No row means no mark.
    pub const HIGHEST: &str = "SELECT token FROM fencing_highest($1)";

    /// Creates the tables and functions, as [`migrations`](crate::sql::migrations) has it.
    pub const MIGRATIONS: &[(i64, &str, &str)] = sqlx::Postgres::MIGRATIONS;
}

/// MySQL and MariaDB.
#[cfg(feature = "mysql")]
pub mod mysql {
    use crate::database::FenceStatements;

    /// Admits: the resource as bytes (a text would be converted from the connection's
    /// character set), the token. Stale is SQLSTATE `ZF412`.
    pub const ADMIT: &str = "CALL fencing_admit(?, ?)";

    /// Presents to the triggers of protected tables, for the next statement that writes to
    /// one: the text of a [`Sequencer`](crate::sequencer::Sequencer) as bytes. It counts for rows
    /// of its resource.
    pub const PRESENT: &str = "SET @fencing_sequencer = ?, @fencing_token = NULL";

    /// Presents a bare token in the same way: the token. It counts for rows of every resource.
    pub const PRESENT_TOKEN: &str = "SET @fencing_token = ?, @fencing_sequencer = NULL";

    /// Reads the mark, without a lock: the resource as bytes. No row means no mark.
    pub const HIGHEST: &str = "SELECT token FROM fencing_marks_base WHERE resource = ?";

    /// Creates the tables and procedures, as [`migrations`](crate::sql::migrations) has it.
    pub const MIGRATIONS: &[(i64, &str, &str)] = sqlx::MySql::MIGRATIONS;
}

/// SQLite. The write itself presents, in the column `fencing_token`: the text of a
/// [`Sequencer`](crate::sequencer::Sequencer), or a token.
#[cfg(feature = "sqlite")]
pub mod sqlite {
    use crate::database::FenceStatements;

    /// Begins a transaction that is going to write: SQLite may refuse the first write of a
    /// deferred one that has read.
    pub const BEGIN: &str = "BEGIN IMMEDIATE";

    /// Admits: the resource as text, the token. Stale is an error of code 1 with a message.
    pub const ADMIT: &str = "INSERT INTO main.fencing_admit (resource, token) VALUES (?1, ?2)";

    /// Reads the mark, without a lock: the resource as text. No row means no mark.
    pub const HIGHEST: &str = "SELECT token FROM main.fencing_marks WHERE resource = ?1";

    /// Creates the tables and triggers, as [`migrations`](crate::sql::migrations) has it.
    pub const MIGRATIONS: &[(i64, &str, &str)] = sqlx::Sqlite::MIGRATIONS;
}
