use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::{MySql, MySqlConnection, Row};

use crate::database::{
    AcquireAnswer, LeaseClaim, LeaseQueries, LeaseStatements, ReleaseAnswer, millis,
};

/// The procedures lock the row first and read the clock then; the migration says why. A
/// single statement could not do it: its time is that of its begin, and it would not be
/// committed where `autocommit` is off. A transaction of several statements would stay open
/// for as long as its client is stopped in the middle of it.
const ACQUIRE: &str = "CALL fencing_lease_acquire(?, ?, ?, ?, ?)";
const RENEW: &str = "CALL fencing_lease_renew(?, ?, ?, ?, ?)";
const RELEASE: &str = "CALL fencing_lease_release(?, ?, ?, ?)";
const DRAIN: &str = "CALL fencing_lease_drain(?, ?, ?)";

const PROBE: &str = "
    SELECT 1 FROM fencing_leases AS lease, fencing_marks_base AS mark, fencing_floor AS floor
    WHERE lease.token = 0 AND mark.token = 0 AND floor.token < 0 LIMIT 0";

const LEASES: LeaseQueries = LeaseQueries {
    list: "
        SELECT CONVERT(resource USING utf8mb4), CAST(token AS CHAR), CONVERT(owner USING utf8mb4),
            IF(owner = 'shared' AND parts IS NOT NULL,
                CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS CHAR), CONVERT(owner USING utf8mb4)),
            CAST(GREATEST(0, expires_at
                - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) DIV 1000 AS CHAR),
            IF(owner = 'shared', CONVERT(parts USING utf8mb4), NULL)
        FROM fencing_leases
        WHERE {which} AND expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
        ORDER BY resource LIMIT {limit}",
    after: "resource > CAST(? AS BINARY)",
    one: "resource = CAST(? AS BINARY)",
    lock: "SELECT CONVERT(owner USING utf8mb4) FROM fencing_leases
        WHERE resource = CAST(? AS BINARY) AND owner = CAST(? AS BINARY) AND token = CAST(? AS SIGNED)
        AND expires_at > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FOR UPDATE",
    end: "UPDATE fencing_leases SET expires_at = 0
        WHERE resource = CAST(? AS BINARY) AND owner = CAST(? AS BINARY) AND token = CAST(? AS SIGNED)",
    audit: "INSERT INTO fencing_audit (resource, from_token, to_token, lowered_by, lowered_at)
        SELECT CAST(? AS BINARY), token, token, USER(), UTC_TIMESTAMP(6)
        FROM (SELECT CAST(? AS SIGNED) AS token) AS lease",
};

/// Returns names as bytes: a text would be converted from the character set of the connection.
fn names(claim: &LeaseClaim) -> (&[u8], &[u8]) {
    (claim.resource.as_str().as_bytes(), claim.owner.as_bytes())
}

/// Returns whole seconds, rounded up.
fn patience(claim: &LeaseClaim) -> i64 {
    claim.patience.saturating_add(999) / 1000
}

impl LeaseStatements for MySql {
    const LEASES: LeaseQueries = LEASES;

    fn acquire<'a>(
        conn: &'a mut MySqlConnection,
        claim: &'a LeaseClaim,
    ) -> BoxFuture<'a, sqlx::Result<AcquireAnswer>> {
        Box::pin(async move {
            let (resource, owner) = names(claim);
            let acquire = sqlx::query(ACQUIRE).bind(resource).bind(owner).bind(claim.shared);
            let acquire = acquire.bind(claim.lasting).bind(patience(claim));
            let rows = acquire.fetch_all(conn).await?;
            let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
            if let Some(token) = row.try_get(0)? {
                return Ok(AcquireAnswer::Granted(token));
            }
            let shared = !claim.shared && row.try_get::<i64, _>(2)? == 1;
            let holder: Option<Vec<u8>> = row.try_get(3)?;
            let holder = holder.and_then(|holder| String::from_utf8(holder).ok());
            Ok(AcquireAnswer::Held { left: row.try_get(1)?, shared, holder })
        })
    }

    fn renew<'a>(
        conn: &'a mut MySqlConnection,
        claim: &'a LeaseClaim,
        token: i64,
    ) -> BoxFuture<'a, sqlx::Result<bool>> {
        Box::pin(async move {
            let (resource, owner) = names(claim);
            let renew = sqlx::query_scalar::<_, i64>(RENEW).bind(resource).bind(owner);
            let renew = renew.bind(token).bind(claim.lasting).bind(patience(claim));
            Ok(renew.fetch_all(conn).await?.first() == Some(&1))
        })
    }

    fn release<'a>(
        conn: &'a mut MySqlConnection,
        claim: &'a LeaseClaim,
        rest: Duration,
    ) -> BoxFuture<'a, sqlx::Result<ReleaseAnswer>> {
        Box::pin(async move {
            let (resource, owner) = names(claim);
            let release = sqlx::query_scalar::<_, i64>(RELEASE).bind(resource).bind(owner);
            let release = release.bind(millis(rest)).bind(patience(claim));
            Ok(release.fetch_all(conn).await?.first().copied().unwrap_or_default().into())
        })
    }

    fn drain<'a>(
        conn: &'a mut MySqlConnection,
        claim: &'a LeaseClaim,
    ) -> BoxFuture<'a, sqlx::Result<()>> {
        Box::pin(async move {
            let drain = sqlx::query(DRAIN).bind(names(claim).0);
            drain.bind(claim.lasting).bind(patience(claim)).execute(conn).await.map(drop)
        })
    }

    fn probe(conn: &mut MySqlConnection) -> BoxFuture<'_, sqlx::Result<()>> {
        Box::pin(async move { sqlx::query(PROBE).execute(conn).await.map(drop) })
    }
}
