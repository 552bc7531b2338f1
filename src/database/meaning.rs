/// The text of the fence where its floor is lost.
pub const NO_FLOOR: &str = "fencing_floor has no row";

/// The meaning of a database error, of any statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "unused with SQLite alone")]
pub enum Meaning {
    /// The fence refuses the token as stale. The message has it, and the mark.
    Stale,
    /// The mark must be raised in a transaction of its own first.
    RaiseFirst,
    /// No token was presented for a protected table.
    Unpresented,
    /// The mark is not a valid token.
    Corrupt,
    /// A conflict with another transaction. This one may succeed when it is run again.
    Conflict,
    /// An earlier statement of the transaction has failed.
    Aborted,
    /// A table, function or procedure of this crate is missing.
    NotMigrated,
    /// The user lacks a right, or was not authenticated.
    Denied,
    /// The server ends the session.
    Closing,
    /// The server starts, or recovers.
    Starting,
    /// The connection broke, or the server takes no more of them.
    Unreached,
    /// The server takes no writes or has no room, or the statement took too long.
    NotNow,
    /// Anything else.
    Other,
}
