use futures_util::future::BoxFuture;
use sqlx::error::DatabaseError;
use sqlx::migrate::Migrator;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{MySql, MySqlConnection, Pool};

use super::backend::{Backend, Refusal, Row, hex, parse};
// The procedure is the one that other languages call: one proof, one round trip. What it
// does and why stands in the migration.
use super::statement::mysql::{ADMIT, HIGHEST, PRESENT};
use super::{AdmitError, MigrateError, Protect};
use crate::resource::Resource;
use crate::token::Token;

const LIST: &str = "
    SELECT resource, token FROM fencing_marks WHERE resource > ?
    ORDER BY resource LIMIT ?";

/// The name has no more than the 64 characters that MySQL takes.
const LOCK: &str = "SELECT GET_LOCK(CONCAT('fencing:', SHA1(DATABASE())), 1)";
const UNLOCK: &str = "SELECT RELEASE_LOCK(CONCAT('fencing:', SHA1(DATABASE())))";

/// What a process has left behind that died while it migrated: each statement that makes
/// a table commits by itself. The migrations can be applied twice.
const TIDY: &str = "DELETE FROM _fencing_migrations WHERE success = FALSE";

/// What the error means, if it is one of this database's.
pub(super) fn refusal(error: &dyn DatabaseError) -> Option<Refusal> {
    let error = error.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(match (error.number(), error.code()) {
        // Lock wait timeout, deadlock, MariaDB's newer snapshot isolation ("record has
        // changed"), a table altered since the snapshot, NOWAIT, a cluster's conflict.
        (1205 | 1213 | 1020 | 1412 | 3572 | 3101, _) => Refusal::Conflict,
        (1146, _) if error.message().contains("fencing_marks") => Refusal::NoTable,
        (1305, _) if error.message().contains("fencing_") => Refusal::NoTable,
        (_, Some(state)) => Refusal::of_own(state, error.message()),
        _ => Refusal::Other,
    })
}

impl Backend for MySql {
    const BEGIN: &'static str = "START TRANSACTION";

    const MIGRATIONS: &'static [(i64, &'static str, &'static str)] = &[
        (1, "fencing marks", include_str!("../../migrations/mysql/0001_fencing_marks.sql")),
        (2, "fencing admit", include_str!("../../migrations/mysql/0002_fencing_admit.sql")),
        (3, "fencing leases", include_str!("../../migrations/mysql/0003_fencing_leases.sql")),
    ];

    fn begin_admitted(resource: &Resource, token: Token) -> Option<String> {
        Some(format!("CALL fencing_begin(x'{}', {token})", hex(resource)))
    }

    fn execute<'a>(conn: &'a mut MySqlConnection, sql: String) -> BoxFuture<'a, sqlx::Result<()>> {
        let sql = sqlx::AssertSqlSafe(sql);
        Box::pin(async move { sqlx::raw_sql(sql).execute(conn).await.map(drop) })
    }

    fn present(conn: &mut MySqlConnection, token: Token) -> BoxFuture<'_, sqlx::Result<()>> {
        Box::pin(async move {
            let set = sqlx::query(PRESENT);
            set.bind(i64::from(token)).execute(conn).await.map(drop)
        })
    }

    fn protect(protect: &Protect) -> Vec<String> {
        super::protect::mysql::statements(protect)
    }

    fn migrate(pool: &Pool<MySql>, migrator: Migrator) -> BoxFuture<'_, Result<(), MigrateError>> {
        Box::pin(async move {
            let mut conn = pool.acquire().await?;
            // The lock belongs to the session: wherever this ends, so does the session.
            conn.close_on_drop();
            let locked = sqlx::query_scalar::<_, Option<i64>>(LOCK).fetch_one(&mut *conn).await?;
            if locked != Some(1) {
                let others = "another process migrates";
                return Err(MigrateError::Locked(sqlx::Error::Protocol(others.into())));
            }
            // Before the first migration there is no such table.
            let _ = sqlx::query(TIDY).execute(&mut *conn).await;
            migrator.run_direct(None, &mut *conn, false).await?;
            sqlx::query(UNLOCK).execute(&mut *conn).await?;
            Ok(())
        })
    }

    fn admit<'a>(
        conn: &'a mut MySqlConnection,
        resource: &'a Resource,
        token: Token,
    ) -> BoxFuture<'a, Result<(), AdmitError>> {
        Box::pin(async move {
            let call = sqlx::query(ADMIT).bind(resource.as_str().as_bytes()).bind(i64::from(token));
            let called = call.execute(conn).await;
            called.map(drop).map_err(|error| AdmitError::of(resource, token, error))
        })
    }

    fn list<'a>(
        conn: &'a mut MySqlConnection,
        after: &'a [u8],
        limit: u32,
    ) -> BoxFuture<'a, sqlx::Result<Vec<Row>>> {
        let list = sqlx::query_as(LIST).bind(after).bind(i64::from(limit));
        Box::pin(list.fetch_all(conn))
    }

    fn mark<'a>(
        conn: &'a mut MySqlConnection,
        resource: &'a Resource,
    ) -> BoxFuture<'a, Result<Option<Token>, AdmitError>> {
        Box::pin(async move {
            let query = sqlx::query_scalar::<_, Option<i64>>(HIGHEST);
            let query = query.bind(resource.as_str().as_bytes());
            parse(resource, query.fetch_optional(conn).await)
        })
    }
}
