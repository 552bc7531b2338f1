use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::{MySql, MySqlConnection, Row};

use crate::database::{AcquireAnswer, Claim, LeaseStatements, ReleaseAnswer, millis};

/// The procedures lock the row first and read the clock then; the migration says why. A
/// single statement could not do it: its time is that of its begin, and it would not be
/// committed where `autocommit` is off. A transaction of several statements would stay open
/// for as long as its client is stopped in the middle of it.
const ACQUIRE: &str = "CALL fencing_lease_acquire(?, ?, ?, ?)";
const RENEW: &str = "CALL fencing_lease_renew(?, ?, ?, ?, ?)";
const RELEASE: &str = "CALL fencing_lease_release(?, ?, ?)";
const SHORTEN: &str = "CALL fencing_lease_shorten(?, ?, ?, ?)";

/// The same for a part in a row that others may share.
const SHARE: &str = "CALL fencing_lease_share(?, ?, ?, ?)";
const RENEW_PART: &str = "CALL fencing_lease_renew_part(?, ?, ?, ?, ?)";
const LEAVE: &str = "CALL fencing_lease_leave(?, ?, ?, ?)";
const DRAIN: &str = "CALL fencing_lease_drain(?, ?, ?)";

const PROBE: &str = "
    SELECT 1 FROM fencing_leases AS lease, fencing_marks_base AS mark, fencing_floor AS floor
    WHERE lease.token = 0 AND mark.token = 0 AND floor.token < 0 LIMIT 0";

/// Returns names as bytes: a text would be converted from the character set of the
/// connection. A part has no room for the holder's name.
fn name(claim: &Claim) -> (&[u8], &[u8]) {
    let owner = claim.owner.as_bytes();
    let digits = owner.split(|byte| *byte == b' ').next().unwrap_or(owner);
    (claim.resource.as_str().as_bytes(), if claim.shared { digits } else { owner })
}

/// Returns whole seconds, rounded up.
fn patience(claim: &Claim) -> i64 {
    claim.patience.saturating_add(999) / 1000
}

impl LeaseStatements for MySql {
    fn acquire<'a>(
        conn: &'a mut MySqlConnection,
        claim: &'a Claim,
    ) -> BoxFuture<'a, sqlx::Result<AcquireAnswer>> {
        Box::pin(async move {
            let (resource, owner) = name(claim);
            let acquire = sqlx::query(if claim.shared { SHARE } else { ACQUIRE });
            let acquire = acquire.bind(resource).bind(owner);
            let acquire = acquire.bind(claim.lasting).bind(patience(claim));
            let rows = acquire.fetch_all(conn).await?;
            let Some(row) = rows.first() else { return Ok(AcquireAnswer::Overtaken) };
            if let Some(token) = row.try_get(0)? {
                return Ok(AcquireAnswer::Granted(token));
            }
            let Some(left) = row.try_get(1)? else { return Ok(AcquireAnswer::Overtaken) };
            let shared = !claim.shared && row.try_get::<i64, _>(2)? == 1;
            // Procedures of an older version have no such column.
            let place = if claim.shared { 2 } else { 3 };
            let holder: Option<Vec<u8>> = row.try_get(place).unwrap_or(None);
            let holder = holder.and_then(|holder| String::from_utf8(holder).ok());
            Ok(AcquireAnswer::Held { left, shared, holder })
        })
    }

    fn renew<'a>(
        conn: &'a mut MySqlConnection,
        claim: &'a Claim,
        token: i64,
    ) -> BoxFuture<'a, sqlx::Result<bool>> {
        Box::pin(async move {
            let (resource, owner) = name(claim);
            let statement = if claim.shared { RENEW_PART } else { RENEW };
            let renew = sqlx::query_scalar::<_, i64>(statement).bind(resource).bind(owner);
            let renew = renew.bind(token).bind(claim.lasting).bind(patience(claim));
            Ok(renew.fetch_all(conn).await?.first() == Some(&1))
        })
    }

    fn release<'a>(
        conn: &'a mut MySqlConnection,
        claim: &'a Claim,
        rest: Duration,
    ) -> BoxFuture<'a, sqlx::Result<ReleaseAnswer>> {
        Box::pin(async move {
            let (resource, owner) = name(claim);
            let statement = match (claim.shared, rest.is_zero()) {
                (true, _) => LEAVE,
                (false, true) => RELEASE,
                (false, false) => SHORTEN,
            };
            let release = sqlx::query_scalar::<_, i64>(statement).bind(resource).bind(owner);
            let release = match claim.shared || !rest.is_zero() {
                true => release.bind(millis(rest)),
                false => release,
            };
            let released = release.bind(patience(claim)).fetch_all(conn).await?;
            Ok(match (claim.shared, released.first()) {
                (false, Some(1)) | (true, Some(2)) => ReleaseAnswer::Released,
                (true, Some(1)) => ReleaseAnswer::Left,
                _ => ReleaseAnswer::Lapsed,
            })
        })
    }

    fn drain<'a>(
        conn: &'a mut MySqlConnection,
        claim: &'a Claim,
    ) -> BoxFuture<'a, sqlx::Result<()>> {
        Box::pin(async move {
            let drain = sqlx::query(DRAIN).bind(claim.resource.as_str().as_bytes());
            drain.bind(claim.lasting).bind(patience(claim)).execute(conn).await.map(drop)
        })
    }

    fn probe(conn: &mut MySqlConnection) -> BoxFuture<'_, sqlx::Result<()>> {
        Box::pin(async move { sqlx::query(PROBE).execute(conn).await.map(drop) })
    }
}
