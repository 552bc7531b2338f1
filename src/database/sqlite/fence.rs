use fencing_protocol::{Resource, Token};
use sqlx::{Sqlite, SqliteConnection};

use crate::database::FenceStatements;

impl FenceStatements for Sqlite {
    /// SQLite may refuse the first write of a deferred transaction that has read.
    const BEGIN: &'static str = "BEGIN IMMEDIATE";

    /// Writes the row for an equal token as well: what keeps a newer token out until the transaction ends is the
    /// database's one write lock, and a mere read does not take it. A mark below 1 stays, and is reported as corrupt.
    /// `NOT EXISTS`: the trigger that guards the marks takes any INSERT of a lower one for an attempt to lower it.
    /// `main`: a temporary table with this name would come first.
    const ADMIT: &'static str = "
        INSERT INTO main.fencing_marks AS mark (resource, token) SELECT ?1, ?2
        WHERE NOT EXISTS (SELECT 1 FROM main.fencing_marks WHERE resource = ?1 AND token > ?2)
        ON CONFLICT (resource) DO UPDATE SET token = excluded.token,
            raised_at = iif(mark.token = excluded.token, mark.raised_at, excluded.raised_at)
        WHERE mark.token BETWEEN 1 AND excluded.token";

    const HIGHEST: &'static str = "SELECT token FROM main.fencing_marks WHERE resource = ?1";

    const NEWEST: Option<&'static str> = Some(Self::HIGHEST);

    const LIST: &'static str = "
        SELECT hex(resource), token FROM main.fencing_marks WHERE resource > {after} ORDER BY resource LIMIT {limit}";

    const LOWER: &'static str = "INSERT INTO main.fencing_lower VALUES ({resource}, {from}, {to})";

    const PRUNABLE: &'static str = "
        WITH old AS (
            SELECT resource, token FROM main.fencing_marks AS mark
            WHERE raised_at <= unixepoch() - {seconds} AND token BETWEEN 1 AND {highest}
                AND NOT EXISTS (SELECT 1 FROM main.fencing_leases AS lease WHERE lease.resource = mark.resource
                    AND expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER))
        )
        SELECT (SELECT count(*) FROM old), (SELECT token FROM main.fencing_floor), hex(resource), token
        FROM (SELECT 1) LEFT JOIN old ON true ORDER BY token DESC LIMIT 1";

    const RAISE_FLOOR: &'static str = "
        INSERT INTO main.fencing_marks (resource, token)
        SELECT resource, token FROM main.fencing_leases AS lease
        WHERE expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) AND token <= {to}
            AND token > (SELECT token FROM main.fencing_floor)
            AND NOT EXISTS (SELECT 1 FROM main.fencing_marks AS mark WHERE mark.resource = lease.resource);
        UPDATE main.fencing_floor SET token = {to} WHERE token < {to};
        SELECT json_extract('{}', 'fencing: fencing_floor has no row')
        WHERE NOT EXISTS (SELECT 1 FROM main.fencing_floor)";

    const PRUNE: &'static str = "
        DELETE FROM main.fencing_marks WHERE resource IN (
            SELECT resource FROM main.fencing_marks AS mark
            WHERE resource > {after} AND raised_at <= unixepoch() - {seconds}
                AND token BETWEEN 1 AND (SELECT token FROM main.fencing_floor)
                AND NOT EXISTS (SELECT 1 FROM main.fencing_leases AS lease WHERE lease.resource = mark.resource
                    AND expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER))
            ORDER BY resource LIMIT {limit})
        RETURNING 1, hex(resource)";

    /// The statement that writes has the database's one write lock from its start.
    const MARK_CONDITION: Option<&'static str> =
        Some("EXISTS (SELECT 1 FROM main.fencing_marks WHERE resource = ?{resource} AND token = ?{token})");

    /// Prepared, as to compile the triggers takes longer than the statement. No mark, or a NULL, is as wrong as 0.
    async fn admit(conn: &mut SqliteConnection, _: String, name: &Resource, token: Token) -> sqlx::Result<Option<i64>> {
        let admit = sqlx::query(Self::ADMIT).bind(name.as_str()).bind(i64::from(token));
        if admit.execute(&mut *conn).await?.rows_affected() == 1 {
            return Ok(None);
        }
        let mark = sqlx::query_scalar(Self::HIGHEST).bind(name.as_str()).fetch_optional(conn).await?;
        Ok(Some(mark.flatten().unwrap_or(0)))
    }
}
