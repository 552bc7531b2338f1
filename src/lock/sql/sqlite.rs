use futures_util::future::BoxFuture;
use sqlx::error::DatabaseError;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Sqlite, SqliteConnection};

use super::backend::{AcquireAnswer, Backend, Claim, Refusal, RenewAnswer};

/// How long a row is closed, in milliseconds, if it is.
///
/// The time of a statement stands still from its first step, which for a writer comes
/// after it has waited for the lock.
const LEFT: &str = "
    SELECT expires_at - CAST(unixepoch('subsec') * 1000 AS INTEGER) FROM fencing_leases
    WHERE resource = ?1 AND expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/// The row counts as this statement finds it, under the database's one write lock. The
/// mark may be above the row's token if the tokens came from elsewhere before, or the
/// row was lost.
const ACQUIRE: &str = "
    INSERT INTO fencing_leases (resource, token, owner, expires_at)
    SELECT ?1,
        coalesce((SELECT token FROM fencing_marks WHERE resource = ?1), 0) + 1,
        ?2, CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?3
    WHERE true
    ON CONFLICT (resource) DO UPDATE SET
        token = max(fencing_leases.token + 1, excluded.token),
        owner = excluded.owner, expires_at = excluded.expires_at
    WHERE fencing_leases.expires_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER)
    RETURNING token";

/// A released row stays released, whatever was still on its way.
const RENEW: &str = "
    UPDATE fencing_leases
    SET expires_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?4
    WHERE resource = ?1 AND owner = ?2 AND token = ?3 AND expires_at <> 0";

const IS_OWN: &str = "
    SELECT owner = ?2 AND token = ?3 FROM fencing_leases WHERE resource = ?1";

const RELEASE: &str = "
    UPDATE fencing_leases SET expires_at = 0
    WHERE resource = ?1 AND owner = ?2
        AND (expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) OR expires_at = 0)";

const PROBE: &str = "
    SELECT 1 FROM fencing_leases AS lease, fencing_marks AS mark
    WHERE lease.token = 0 AND mark.token = 0 LIMIT 0";

impl Backend for Sqlite {
    fn name(options: &SqliteConnectOptions) -> String {
        format!("sqlite:{}", options.get_filename().display())
    }

    fn refusal(error: &dyn DatabaseError) -> Refusal {
        // An extended code, BUSY_SNAPSHOT say, has the primary one in its low byte.
        let code = error.code().and_then(|code| code.parse::<i32>().ok());
        match code.map(|code| code & 0xff) {
            // BUSY, LOCKED, and PROTOCOL: the race for a WAL's locks was lost too often.
            Some(5 | 6 | 15) => Refusal::Conflict,
            Some(1) if error.message().starts_with("no such table: fencing_") => Refusal::NoTable,
            // PERM, READONLY, AUTH
            Some(3 | 8 | 23) => Refusal::Denied,
            _ => Refusal::Other,
        }
    }

    fn acquire<'a>(
        conn: &'a mut SqliteConnection,
        claim: &'a Claim,
    ) -> BoxFuture<'a, sqlx::Result<AcquireAnswer>> {
        Box::pin(async move {
            // A row that is closed is only read: there is one writer at a time.
            let left = sqlx::query_scalar::<_, i64>(LEFT).bind(claim.resource.as_str());
            if let Some(left) = left.fetch_optional(&mut *conn).await? {
                return Ok(AcquireAnswer::Held(left));
            }
            let take = sqlx::query_scalar::<_, i64>(ACQUIRE).bind(claim.resource.as_str());
            let take = take.bind(&claim.owner).bind(claim.lasting);
            // To the end: the row comes before the commit, which may fail.
            let tokens = take.fetch_all(conn).await?;
            Ok(tokens
                .first()
                .map_or(AcquireAnswer::Overtaken, |token| AcquireAnswer::Granted(*token)))
        })
    }

    fn renew<'a>(
        conn: &'a mut SqliteConnection,
        claim: &'a Claim,
        token: i64,
    ) -> BoxFuture<'a, sqlx::Result<RenewAnswer>> {
        Box::pin(async move {
            let extend = sqlx::query(RENEW).bind(claim.resource.as_str()).bind(&claim.owner);
            let extend = extend.bind(token).bind(claim.lasting);
            if extend.execute(&mut *conn).await?.rows_affected() == 1 {
                return Ok(RenewAnswer::Renewed);
            }
            let own = sqlx::query_scalar::<_, bool>(IS_OWN).bind(claim.resource.as_str());
            let own = own.bind(&claim.owner).bind(token).fetch_optional(conn).await?;
            Ok(if own == Some(false) { RenewAnswer::Superseded } else { RenewAnswer::Gone })
        })
    }

    fn release<'a>(
        conn: &'a mut SqliteConnection,
        claim: &'a Claim,
    ) -> BoxFuture<'a, sqlx::Result<bool>> {
        Box::pin(async move {
            let free = sqlx::query(RELEASE).bind(claim.resource.as_str()).bind(&claim.owner);
            Ok(free.execute(conn).await?.rows_affected() == 1)
        })
    }

    fn probe(conn: &mut SqliteConnection) -> BoxFuture<'_, sqlx::Result<()>> {
        Box::pin(async move { sqlx::query(PROBE).execute(conn).await.map(drop) })
    }
}
