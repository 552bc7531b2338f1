//! What PostgreSQL and SQLite have alike.

/// How the statements for other libraries take a name.
pub fn name(resource: &fencing::Resource) -> &str {
    resource.as_str()
}

/// Whether the marks get their guard from docs/reference/sql.md: the migrations create it.
pub const GUARD: bool = false;

pub const OURS: &[&str] = &["_fencing_migrations", "fencing_audit", "fencing_floor", "fencing_leases", "fencing_marks"];

/// The same placeholders serve here.
pub fn sql(text: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(text.to_owned())
}

/// Whether transactions of XA know that they are such.
pub const XA: bool = false;
