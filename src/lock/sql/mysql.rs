use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::{MySql, MySqlConnection};

use crate::database::{AcquireAnswer, Claim, LeaseStatements, RenewAnswer, millis};

/// The procedures lock the row first and read the clock then; the migration says why. A
/// single statement could not do it: its time is that of its begin, and it would not be
/// committed where `autocommit` is off. A transaction of several statements would stay open
/// for as long as its client is stopped in the middle of it.
const ACQUIRE: &str = "CALL fencing_lease_acquire(?, ?, ?, ?)";
const RENEW: &str = "CALL fencing_lease_renew(?, ?, ?, ?, ?)";
const RELEASE: &str = "CALL fencing_lease_release(?, ?, ?)";
const SHORTEN: &str = "CALL fencing_lease_shorten(?, ?, ?, ?)";

const PROBE: &str = "
    SELECT 1 FROM fencing_leases AS lease, fencing_marks_base AS mark
    WHERE lease.token = 0 AND mark.token = 0 LIMIT 0";

/// Returns names as bytes: a text would be converted from the character set of the
/// connection.
fn name(claim: &Claim) -> (&[u8], &[u8]) {
    (claim.resource.as_str().as_bytes(), claim.owner.as_bytes())
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
            let acquire = sqlx::query_as::<_, (Option<i64>, Option<i64>)>(ACQUIRE);
            let acquire = acquire.bind(resource).bind(owner);
            let acquire = acquire.bind(claim.lasting).bind(patience(claim));
            Ok(match acquire.fetch_all(conn).await?.first() {
                Some((Some(token), _)) => AcquireAnswer::Granted(*token),
                Some((None, Some(left))) => AcquireAnswer::Held(*left),
                Some((None, None)) | None => AcquireAnswer::Overtaken,
            })
        })
    }

    fn renew<'a>(
        conn: &'a mut MySqlConnection,
        claim: &'a Claim,
        token: i64,
    ) -> BoxFuture<'a, sqlx::Result<RenewAnswer>> {
        Box::pin(async move {
            let (resource, owner) = name(claim);
            let renew = sqlx::query_as::<_, (i64, i64)>(RENEW).bind(resource).bind(owner);
            let renew = renew.bind(token).bind(claim.lasting).bind(patience(claim));
            Ok(match renew.fetch_all(conn).await?.first() {
                Some((1, _)) => RenewAnswer::Renewed,
                Some((_, 1)) => RenewAnswer::Superseded,
                _ => RenewAnswer::Gone,
            })
        })
    }

    fn release<'a>(
        conn: &'a mut MySqlConnection,
        claim: &'a Claim,
        rest: Duration,
    ) -> BoxFuture<'a, sqlx::Result<bool>> {
        Box::pin(async move {
            let (resource, owner) = name(claim);
            let statement = if rest.is_zero() { RELEASE } else { SHORTEN };
            let release = sqlx::query_scalar::<_, i64>(statement).bind(resource).bind(owner);
            let release = if rest.is_zero() { release } else { release.bind(millis(rest)) };
            let release = release.bind(patience(claim));
            Ok(release.fetch_all(conn).await?.first() == Some(&1))
        })
    }

    fn probe(conn: &mut MySqlConnection) -> BoxFuture<'_, sqlx::Result<()>> {
        Box::pin(async move { sqlx::query(PROBE).execute(conn).await.map(drop) })
    }
}
