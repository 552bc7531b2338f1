use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::{Sqlite, SqliteConnection};

use super::sqlite_parts::{DRAIN, LEAVE, LEFT_TO_SHARE, RENEW_PART, SHARE, SHORTEN_PART};
use crate::database::{AcquireAnswer, Claim, LeaseStatements, ReleaseAnswer, millis};

/// Reads for how many milliseconds a row is still closed, and whether it is news that this is
/// longer than a grant allows: then the clock was set back, and the row counts from now on. It
/// is news as well that the clock was put right. The other columns say whether several share it, and who holds
/// it.
///
/// The time of a statement stands still from its first step, which for a writer comes
/// after it has waited for the lock.
const LEFT: &str = "
    SELECT CASE WHEN expires_at > present + closed_for
            THEN min(coalesce(odd_since, present), present) + closed_for ELSE expires_at END - present,
        CASE WHEN expires_at > present + closed_for
            THEN coalesce(odd_since > present, true) ELSE odd_since IS NOT NULL END,
        parts IS NOT NULL AND owner = 'shared',
        CASE WHEN parts IS NOT NULL AND owner = 'shared'
            THEN (SELECT key FROM json_each(parts) ORDER BY value DESC LIMIT 1) ELSE owner END
    FROM fencing_leases, (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS present)
    WHERE resource = ?1 AND expires_at > present
        AND NOT coalesce(expires_at > present + closed_for AND odd_since + closed_for <= present, false)";

const NOTICE: &str = "
    UPDATE fencing_leases SET odd_since = CASE
        WHEN expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) + closed_for
        THEN CAST(unixepoch('subsec') * 1000 AS INTEGER) END
    WHERE resource = ?1 AND (odd_since IS NOT NULL
        OR expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) + closed_for)";

/// Acquires the row as this statement finds it, under the database's one write lock. The
/// mark may be above the row's token if the tokens came from elsewhere before, or the
/// row was lost. The floor stands for a mark that was pruned.
const ACQUIRE: &str = "
    INSERT INTO fencing_leases (resource, token, owner, expires_at, closed_for)
    SELECT ?1,
        max(coalesce((SELECT token FROM fencing_marks WHERE resource = ?1), 0),
            (SELECT token FROM fencing_floor)) + 1,
        ?2, CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?3, ?3
    WHERE true
    ON CONFLICT (resource) DO UPDATE SET
        token = max(fencing_leases.token + 1, excluded.token),
        owner = excluded.owner, expires_at = excluded.expires_at,
        closed_for = excluded.closed_for, odd_since = NULL,
        parts = NULL, draining_since = NULL, draining_until = NULL
    WHERE fencing_leases.expires_at <= CAST(unixepoch('subsec') * 1000 AS INTEGER)
        OR fencing_leases.expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) + fencing_leases.closed_for
            AND fencing_leases.odd_since + fencing_leases.closed_for <= CAST(unixepoch('subsec') * 1000 AS INTEGER)
    RETURNING token";

/// Renews the row. A released row stays released, whatever was still on its way.
const RENEW: &str = "
    UPDATE fencing_leases
    SET expires_at = CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?4, closed_for = ?4, odd_since = NULL
    WHERE resource = ?1 AND owner = ?2 AND token = ?3 AND expires_at <> 0";

const RELEASE: &str = "
    UPDATE fencing_leases SET expires_at = 0
    WHERE resource = ?1 AND owner = ?2
        AND (expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER) OR expires_at = 0)";

/// Leaves the row closed for the rest. The owner's name gets a mark: a renewal that is still on its way
/// must not find it.
const SHORTEN: &str = "
    UPDATE fencing_leases SET owner = ?2 || '.',
        expires_at = min(expires_at, CAST(unixepoch('subsec') * 1000 AS INTEGER) + ?3)
    WHERE resource = ?1 AND (owner = ?2 || '.'
        OR owner = ?2 AND expires_at > CAST(unixepoch('subsec') * 1000 AS INTEGER))";

const PROBE: &str = "
    SELECT 1 FROM fencing_leases AS lease, fencing_marks AS mark, fencing_floor AS floor
    WHERE lease.token = 0 AND mark.token = 0 AND floor.token < 0 LIMIT 0";

/// For how many milliseconds a row is still closed, whether that is news, whether several share it, and who holds it.
type Left = (i64, bool, bool, Option<String>);

impl LeaseStatements for Sqlite {
    fn acquire<'a>(
        conn: &'a mut SqliteConnection,
        claim: &'a Claim,
    ) -> BoxFuture<'a, sqlx::Result<AcquireAnswer>> {
        Box::pin(async move {
            // A row that is closed is only read: there is one writer at a time.
            let (left, acquire) = match claim.shared {
                true => (LEFT_TO_SHARE, SHARE),
                false => (LEFT, ACQUIRE),
            };
            let left = sqlx::query_as::<_, Left>(left).bind(claim.resource.as_str());
            if let Some((left, is_news, shared, holder)) = left.fetch_optional(&mut *conn).await? {
                if is_news {
                    let notice = sqlx::query(NOTICE).bind(claim.resource.as_str());
                    notice.execute(&mut *conn).await?;
                }
                return Ok(AcquireAnswer::Held { left, shared, holder });
            }
            let acquire = sqlx::query_scalar::<_, i64>(acquire).bind(claim.resource.as_str());
            let acquire = acquire.bind(&claim.owner).bind(claim.lasting);
            // To the end: the row comes before the commit, which may fail.
            let tokens = acquire.fetch_all(conn).await?;
            Ok(tokens
                .first()
                .map_or(AcquireAnswer::Overtaken, |token| AcquireAnswer::Granted(*token)))
        })
    }

    fn renew<'a>(
        conn: &'a mut SqliteConnection,
        claim: &'a Claim,
        token: i64,
    ) -> BoxFuture<'a, sqlx::Result<bool>> {
        Box::pin(async move {
            let renew = if claim.shared { RENEW_PART } else { RENEW };
            let renew = sqlx::query(renew).bind(claim.resource.as_str()).bind(&claim.owner);
            let renew = renew.bind(token).bind(claim.lasting);
            Ok(renew.execute(conn).await?.rows_affected() == 1)
        })
    }

    fn release<'a>(
        conn: &'a mut SqliteConnection,
        claim: &'a Claim,
        rest: Duration,
    ) -> BoxFuture<'a, sqlx::Result<ReleaseAnswer>> {
        Box::pin(async move {
            let statement = match (claim.shared, rest.is_zero()) {
                (true, true) => LEAVE,
                (true, false) => SHORTEN_PART,
                (false, true) => RELEASE,
                (false, false) => SHORTEN,
            };
            if !claim.shared {
                let release = sqlx::query(statement).bind(claim.resource.as_str());
                let release = release.bind(&claim.owner);
                let release = if rest.is_zero() { release } else { release.bind(millis(rest)) };
                let held = release.execute(conn).await?.rows_affected() == 1;
                return Ok(ReleaseAnswer::alone(held));
            }
            let leave = sqlx::query_scalar::<_, bool>(statement).bind(claim.resource.as_str());
            let leave = leave.bind(&claim.owner);
            let leave = if rest.is_zero() { leave } else { leave.bind(millis(rest)) };
            Ok(match leave.fetch_all(conn).await?.first() {
                Some(true) => ReleaseAnswer::Released,
                Some(false) => ReleaseAnswer::Left,
                None => ReleaseAnswer::Lapsed,
            })
        })
    }

    fn drain<'a>(
        conn: &'a mut SqliteConnection,
        claim: &'a Claim,
    ) -> BoxFuture<'a, sqlx::Result<()>> {
        Box::pin(async move {
            let drain = sqlx::query(DRAIN).bind(claim.resource.as_str()).bind(claim.lasting);
            drain.execute(conn).await.map(drop)
        })
    }

    fn probe(conn: &mut SqliteConnection) -> BoxFuture<'_, sqlx::Result<()>> {
        Box::pin(async move { sqlx::query(PROBE).execute(conn).await.map(drop) })
    }
}
