use fencing_protocol::{Resource, Token};
use sqlx::error::BoxDynError;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments as _, Pool, Sqlite, SqliteConnection};

use crate::database::opening::in_one_transaction;
use crate::database::plain::{migrations, plain_statements};
use crate::database::{AdmitAnswer, Dialect, FenceStatements, Migrations};

/// Begins a transaction that is going to write: SQLite may refuse the first write of a
/// deferred one that has read.
pub const BEGIN: &str = "BEGIN IMMEDIATE";

/// Reads the mark, without a lock: the resource as text. No row means no mark.
pub const HIGHEST: &str = "SELECT token FROM main.fencing_marks WHERE resource = ?1";

/// Writes the row for an equal token as well: what keeps a newer token out until the
/// transaction ends is the database's one write lock, and a mere read does not take it.
/// A mark below 1 stays, and is reported as corrupt.
///
/// `NOT EXISTS`: the trigger that guards the marks takes any INSERT of a lower one for an
/// attempt to lower it.
///
/// `main`: a temporary table with this name would come first.
const RAISE: &str = "
    INSERT INTO main.fencing_marks AS mark (resource, token) SELECT ?1, ?2
    WHERE NOT EXISTS (SELECT 1 FROM main.fencing_marks WHERE resource = ?1 AND token > ?2)
    ON CONFLICT (resource) DO UPDATE SET token = excluded.token,
        raised_at = iif(mark.token = excluded.token, mark.raised_at, excluded.raised_at)
    WHERE mark.token BETWEEN 1 AND excluded.token";

/// The condition of marks that may be pruned, apart from their names, in which `?1` is their age in seconds.
const PRUNABLE: &str = "
    mark.raised_at <= unixepoch() - ?1 AND NOT EXISTS (SELECT 1 FROM main.fencing_leases AS lease
        WHERE lease.resource = mark.resource
            AND lease.expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER))";

/// Raises the floor to ?1. A current lease without a mark gets one first: otherwise its token would be refused.
const RAISE_FLOOR: &str = "
    INSERT INTO main.fencing_marks (resource, token)
    SELECT resource, token FROM main.fencing_leases AS lease
    WHERE expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) AND token <= ?1
        AND token > (SELECT token FROM main.fencing_floor)
        AND NOT EXISTS (SELECT 1 FROM main.fencing_marks AS mark WHERE mark.resource = lease.resource);
    UPDATE main.fencing_floor SET token = ?1 WHERE token < ?1";

/// The schema keeps the text from the name on.
const OBJECTS: &str = "SELECT 'trigger ' || name, substr(sql, 16), NULL
    FROM main.sqlite_schema WHERE type = 'trigger'";

impl FenceStatements for Sqlite {
    const DIALECT: Dialect = Dialect::Sqlite;

    const BEGIN: &'static str = BEGIN;

    const OBJECTS: &'static str = OBJECTS;

    const REMOVAL: &'static str = include_str!("../../../migrations/sqlite/remove.sql");

    const MIGRATIONS: Migrations = migrations!("sqlite");

    /// The statement that writes has the database's one write lock from its start.
    fn held(
        values: &mut SqliteArguments,
        resource: &Resource,
        token: Token,
    ) -> Result<Option<String>, BoxDynError> {
        values.add(resource.as_str().to_owned())?;
        values.add(i64::from(token))?;
        let (name, number) = (values.len() - 1, values.len());
        Ok(Some(format!(
            "EXISTS (SELECT 1 FROM main.fencing_marks WHERE resource = ?{name} AND token = ?{number})"
        )))
    }

    plain_statements!();

    async fn migrate(pool: &Pool<Sqlite>, migrator: Migrator) -> Result<bool, MigrateError> {
        // IMMEDIATE takes the write lock.
        in_one_transaction(pool, Sqlite::BEGIN, None, migrator).await
    }

    async fn admit(
        conn: &mut SqliteConnection,
        resource: &Resource,
        token: Token,
    ) -> sqlx::Result<AdmitAnswer> {
        let raise = sqlx::query(RAISE).bind(resource.as_str()).bind(i64::from(token));
        match raise.execute(&mut *conn).await?.rows_affected() {
            1 => Ok(AdmitAnswer::Admitted),
            _ => Ok(AdmitAnswer::Refused(None)),
        }
    }

    fn present(_: Token, _: Option<&Resource>) -> Option<String> {
        None
    }

    fn lower(resource: &Resource, from: Token, to: Token) -> String {
        let name = Dialect::Sqlite.literal(resource.as_str());
        format!("INSERT INTO main.fencing_lower VALUES ({name}, {from}, {to})")
    }

    fn prunable(seconds: i64, highest: Token) -> String {
        let prunable = PRUNABLE.replace("?1", &seconds.to_string());
        format!(
            "WITH old AS (SELECT resource, token FROM main.fencing_marks AS mark
                WHERE {prunable} AND token BETWEEN 1 AND {highest})
            SELECT (SELECT count(*) FROM old), (SELECT token FROM main.fencing_floor),
                hex(resource), token
            FROM (SELECT 1) LEFT JOIN old ON true ORDER BY token DESC LIMIT 1"
        )
    }

    fn raise_floor(to: Token, _: bool) -> String {
        RAISE_FLOOR.replace("?1", &to.to_string())
    }

    fn prune(seconds: i64, after: &str, limit: u32) -> String {
        let prunable = PRUNABLE.replace("?1", &seconds.to_string());
        format!(
            "DELETE FROM main.fencing_marks WHERE resource IN (
                SELECT resource FROM main.fencing_marks AS mark
                WHERE {prunable} AND resource > CAST(x'{after}' AS TEXT)
                    AND token BETWEEN 1 AND (SELECT token FROM main.fencing_floor)
                ORDER BY resource LIMIT {limit})
            RETURNING 1, hex(resource)"
        )
    }

    fn list(after: &[u8], limit: u32) -> String {
        let after = Dialect::Sqlite.literal(after);
        format!(
            "SELECT hex(resource), token FROM main.fencing_marks WHERE resource > {after}
            ORDER BY resource LIMIT {limit}"
        )
    }

    fn mark(resource: &Resource) -> String {
        HIGHEST.replace("?1", &Dialect::Sqlite.literal(resource.as_str()))
    }
}
