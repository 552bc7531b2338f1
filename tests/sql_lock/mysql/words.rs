//! The same in the words of MySQL.

/// The row has expired, and was not released.
pub const EXPIRE: &str = "UPDATE fencing_leases SET expires_at = 1 WHERE expires_at > 1";

/// The row is set free, as an operator may do it.
pub const FREE: &str = "UPDATE fencing_leases SET expires_at = 0";

/// When the row expires, in milliseconds.
pub const EXPIRES_AT: &str = "SELECT expires_at DIV 1000 FROM fencing_leases WHERE resource = ?";

/// The resource gets this mark.
pub const MARK: &str = "INSERT INTO fencing_marks (resource, token) VALUES (?, ?)
    ON DUPLICATE KEY UPDATE token = VALUES(token)";
