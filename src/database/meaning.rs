/// What an error of a database means, whichever statement it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "SQLite has no server")]
pub enum Meaning {
    /// Another transaction was in the way. The same one may succeed when it is run again.
    Conflict,
    /// A table, function or procedure of this crate is missing.
    NotMigrated,
    /// The user may not do that, or is not who it claims to be.
    Denied,
    /// The server knows no such variable.
    Unknown,
    /// The server ends the session.
    Closing,
    /// The server starts, or recovers.
    Starting,
    /// Anything else.
    Other,
}
