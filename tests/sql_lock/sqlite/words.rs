//! The same in the words of SQLite.

/// The row has expired, and was not released.
pub const EXPIRE: &str = "UPDATE fencing_leases SET expires_at = 1 WHERE expires_at > 1";

/// When the row expires, in milliseconds.
pub const EXPIRES_AT: &str = "SELECT expires_at FROM fencing_leases";

/// Sets a time in the rows later, or earlier.
pub fn later(column: &str, seconds: i64) -> String {
    format!("{column} = {column} + {seconds} * 1000")
}

/// The ends of the parts are an hour later.
pub const PART_BACK: &str = "UPDATE fencing_leases SET parts = (
    SELECT json_group_object(key, value + 3600000) FROM json_each(fencing_leases.parts))";

/// For how many milliseconds the wait keeps others from joining.
pub const DRAINS_FOR: &str = "SELECT draining_until - draining_since FROM fencing_leases";

/// How many sessions the database has: SQLite does not say who has opened the file.
pub const SESSIONS: Option<&str> = None;

/// Whether the parts of a row that several share carry names.
pub const PARTS_HAVE_NAMES: bool = true;
