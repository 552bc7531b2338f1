/// The meaning of a database error, of any statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "SQLite has no server")]
pub enum Meaning {
    /// A conflict with another transaction. This one may succeed when it is run again.
    Conflict,
    /// A table, function or procedure of this crate is missing.
    NotMigrated,
    /// The user lacks a right, or was not authenticated.
    Denied,
    /// The server ends the session.
    Closing,
    /// The server starts, or recovers.
    Starting,
    /// Anything else.
    Other,
}
