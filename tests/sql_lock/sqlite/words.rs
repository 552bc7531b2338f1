//! The same in the words of SQLite.

/// The row has expired, and was not released.
pub const EXPIRE: &str = "UPDATE fencing_leases SET expires_at = 1 WHERE expires_at > 1";

/// The row is set free, as an operator may do it.
pub const FREE: &str = "UPDATE fencing_leases SET expires_at = 0";

/// When the row expires, in milliseconds.
pub const EXPIRES_AT: &str = "SELECT expires_at FROM fencing_leases WHERE resource = $1";

/// The name of the only row's owner.
pub const OWNER: &str = "SELECT CAST(owner AS BLOB) FROM fencing_leases";

/// The resource gets this mark.
pub const MARK: &str = "INSERT INTO fencing_marks (resource, token) VALUES ($1, $2)
    ON CONFLICT (resource) DO UPDATE SET token = excluded.token";

/// The clock is set back by an hour, and forward again: what counts is the distance to the row.
pub const BACK: &str = "UPDATE fencing_leases SET expires_at = expires_at + 3600000, clock_anomaly_since = clock_anomaly_since + 3600000";
pub const FORTH: &str = "UPDATE fencing_leases SET expires_at = expires_at - 3600000, clock_anomaly_since = clock_anomaly_since - 3600000";

/// The same for the ends of parts, and for a wait until all who share it have left.
pub const PART_BACK: &str = "UPDATE fencing_leases SET parts = (
    SELECT json_group_object(key, value + 3600000) FROM json_each(fencing_leases.parts))";
/// For how many milliseconds the wait keeps others from joining.
pub const DRAINS_FOR: &str = "SELECT draining_until - draining_since FROM fencing_leases";
pub const DRAINED_LATER: &str = "UPDATE fencing_leases
    SET draining_since = draining_since + 3600000, draining_until = draining_until + 3600000";
pub const DRAINED_EARLIER: &str = "UPDATE fencing_leases
    SET draining_since = draining_since - 25000, draining_until = draining_until - 25000";

/// SQLite does not say who has opened the file.
pub async fn sessions(_: &sqlx::SqlitePool) -> Option<i64> {
    None
}

/// Whether the parts of a row that several share carry names.
pub const PARTS_HAVE_NAMES: bool = true;
