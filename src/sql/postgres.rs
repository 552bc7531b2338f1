use futures_util::future::BoxFuture;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::{PgConnection, Pool, Postgres};

use super::migrate::in_one_transaction;
use super::protect::hex;
use super::statement::postgres::{HIGHEST, PRESENT};
use crate::database::{AdmitAnswer, FenceStatements, Migrations, Row};
use crate::resource::Resource;
use crate::token::Token;

/// Admits or refuses in one statement.
///
/// `turn`: row locks are not fair. A transaction that shares one overtakes those that wait
/// for it, and a stream of equal tokens would keep the newer one out for ever. Advisory
/// locks queue. They are for fairness alone, the row locks below decide, so that two names
/// with one hash cost a wait and nothing else. A token that is stale already takes none: it
/// must not delay the newer one.
///
/// `held`: the mark is this token already. SHARE admits equal tokens side by side and keeps
/// a raise out until they have ended; KEY SHARE would let the raise through. After a wait
/// for another transaction, `token = $2` is tested again on the row that it left.
///
/// `raised`: the first contact. It waits for every holder of an older token, and tests
/// `<` after the wait, on the newest row. It is not tried where the mark was as high
/// already: the upsert locks the row even where it refuses, and `held` may have left a
/// share of the row that has replaced its own, which two would then raise into a
/// deadlock. A mark below 1 stays, and is reported as corrupt.
///
/// Under REPEATABLE READ and SERIALIZABLE both fail with 40001 if the row is newer than
/// the snapshot.
const ADMIT: &str = "
    WITH seen AS MATERIALIZED (
        SELECT token FROM fencing_marks WHERE resource = $1
    ), turn AS MATERIALIZED (
        SELECT CASE
            WHEN EXISTS (SELECT FROM seen WHERE token > $2) THEN NULL
            WHEN EXISTS (SELECT FROM seen WHERE token = $2)
                THEN pg_advisory_xact_lock_shared(hashtextextended($1, 28548280319532647))
            ELSE pg_advisory_xact_lock(hashtextextended($1, 28548280319532647))
        END AS taken
    ), held AS (
        SELECT FROM turn, fencing_marks AS mark
        WHERE mark.resource = $1 AND mark.token = $2 FOR SHARE OF mark
    ), raised AS (
        INSERT INTO fencing_marks AS mark (resource, token)
        SELECT $1, $2 FROM turn
        WHERE NOT EXISTS (SELECT FROM seen WHERE token >= $2)
        ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token
        WHERE mark.token BETWEEN 1 AND EXCLUDED.token - 1
        RETURNING 1
    )
    SELECT EXISTS (SELECT FROM held) OR EXISTS (SELECT FROM raised)";

const LIST: &str = "
    SELECT convert_to(resource, 'UTF8'), token FROM fencing_marks
    WHERE resource > convert_from($1, 'UTF8') ORDER BY resource LIMIT $2";

/// How often `ADMIT` runs: once more after an equal token came first, and once to spare.
const ROUNDS: usize = 3;

/// Each statement must see what the migration before it, by another process, has done: an
/// older snapshot would apply it twice.
const BEGIN_MIGRATION: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/// Ends with the transaction. The migrator's own lock belongs to the session, and stays
/// behind in the pool when a migration fails or is dropped. "fencing" in ASCII: no other
/// program's advisory lock.
const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(28821972413148775)";

impl FenceStatements for Postgres {
    const BEGIN: &'static str = "BEGIN";

    const BEGIN_TO_RAISE: &'static str = "BEGIN ISOLATION LEVEL READ COMMITTED";

    const BEGIN_BOUNDED: &'static str = "BEGIN; SET LOCAL lock_timeout = 1000";

    const MIGRATIONS: Migrations = &[
        (1, "fencing marks", include_str!("../../migrations/postgres/0001_fencing_marks.sql")),
        (2, "fencing admit", include_str!("../../migrations/postgres/0002_fencing_admit.sql")),
        (3, "fencing leases", include_str!("../../migrations/postgres/0003_fencing_leases.sql")),
    ];

    fn begin_admitted(resource: &Resource, token: Token) -> Option<String> {
        // The text is an implicit transaction. A refusal ends it; otherwise BEGIN turns it
        // into an explicit one.
        let name = hex(resource.as_str());
        Some(format!(
            "CALL fencing_begin(convert_from(decode('{name}', 'hex'), 'UTF8'), {token}); BEGIN"
        ))
    }

    fn execute<'a>(conn: &'a mut PgConnection, sql: String) -> BoxFuture<'a, sqlx::Result<()>> {
        let sql = sqlx::AssertSqlSafe(sql);
        Box::pin(async move { sqlx::raw_sql(sql).execute(conn).await.map(drop) })
    }

    fn present(conn: &mut PgConnection, token: Token) -> BoxFuture<'_, sqlx::Result<()>> {
        Box::pin(async move {
            let set = sqlx::query(PRESENT);
            set.bind(token.to_string()).execute(conn).await.map(drop)
        })
    }

    fn migrate(
        pool: &Pool<Postgres>,
        migrator: Migrator,
    ) -> BoxFuture<'_, Result<bool, MigrateError>> {
        Box::pin(in_one_transaction(pool, BEGIN_MIGRATION, Some(MIGRATION_LOCK), migrator))
    }

    fn admit<'a>(
        conn: &'a mut PgConnection,
        resource: &'a Resource,
        token: Token,
    ) -> BoxFuture<'a, sqlx::Result<AdmitAnswer>> {
        Box::pin(async move {
            let mut mark = None;
            for _ in 0..ROUNDS {
                let admit = sqlx::query_scalar::<_, bool>(ADMIT).bind(resource.as_str());
                if admit.bind(i64::from(token)).fetch_one(&mut *conn).await? {
                    return Ok(AdmitAnswer::Admitted);
                }
                // A statement of its own: the snapshot of `ADMIT` may be older than what
                // refused it.
                mark = Postgres::mark(conn, resource).await?;
                if mark.flatten() > Some(i64::from(token)) {
                    break;
                }
                // An equal token came first. Only `ADMIT` admits: it takes the lock.
            }
            Ok(AdmitAnswer::Refused(mark))
        })
    }

    fn list<'a>(
        conn: &'a mut PgConnection,
        after: &'a [u8],
        limit: u32,
    ) -> BoxFuture<'a, sqlx::Result<Vec<Row>>> {
        let list = sqlx::query_as(LIST).bind(after).bind(i64::from(limit));
        Box::pin(list.fetch_all(conn))
    }

    fn mark<'a>(
        conn: &'a mut PgConnection,
        resource: &'a Resource,
    ) -> BoxFuture<'a, sqlx::Result<Option<Option<i64>>>> {
        Box::pin(sqlx::query_scalar(HIGHEST).bind(resource.as_str()).fetch_optional(conn))
    }
}
