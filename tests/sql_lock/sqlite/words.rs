//! The same in the words of SQLite: `postgres/words.rs` says what each is.

pub const EXPIRE: &str = "UPDATE fencing_leases SET expires_at = 1 WHERE expires_at > 1";
pub const EXPIRES_AT: &str = "SELECT expires_at FROM fencing_leases";

pub fn later(column: &str, seconds: i64) -> String {
    format!("{column} = {column} + {seconds} * 1000")
}

pub const PART_BACK: &str = "UPDATE fencing_leases SET parts = (
    SELECT json_group_object(key, value + 3600000) FROM json_each(fencing_leases.parts))";

pub const DRAINS_FOR: &str = "SELECT draining_until - draining_since FROM fencing_leases";

/// How many sessions the database has: SQLite does not say who has opened the file.
pub const SESSIONS: Option<&str> = None;
pub const PARTS_HAVE_NAMES: bool = true;
