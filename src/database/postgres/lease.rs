use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::{AssertSqlSafe, FromRow, PgConnection, Pool, Postgres};

use super::{READ_COMMITTED, channels};
use crate::database::{
    AcquireAnswer, Channels, Dialect, LeaseClaim, LeaseQueries, LeaseStatements, ReleaseAnswer,
    millis,
};

const LEASES: LeaseQueries = LeaseQueries {
    list: "
        SELECT resource, token::text, owner, coalesce(part.key, owner),
            CASE WHEN expires_at < 'infinity' THEN greatest(0, coalesce(part.value::bigint / 1000
                - extract(epoch FROM present) * 1000, extract(epoch FROM expires_at - present) * 1000))::bigint::text
            END, NULL
        FROM (SELECT *, clock_timestamp() AS present FROM fencing_leases
            WHERE {which} AND expires_at > clock_timestamp() ORDER BY resource LIMIT {limit}) AS lease
        LEFT JOIN LATERAL jsonb_each_text(CASE WHEN owner = 'shared' THEN parts END) AS part
            ON part.value::bigint / 1000 > extract(epoch FROM present) * 1000
        ORDER BY resource, 4",
    after: "resource > $1",
    one: "resource = $1",
    lock: "SELECT owner FROM fencing_leases WHERE resource = $1 AND owner = $2 AND token = $3::bigint
        AND expires_at > clock_timestamp() FOR UPDATE",
    end: "UPDATE fencing_leases SET expires_at = '-infinity'
        WHERE resource = $1 AND owner = $2 AND token = $3::bigint",
    audit: "INSERT INTO fencing_audit (resource, from_token, to_token, lowered_at)
        VALUES ($1, $2::bigint, $2::bigint, clock_timestamp())",
};

const PROBE: &str = "
    SELECT FROM fencing_leases AS lease, fencing_last('') AS mark
    WHERE lease.token = 0 AND mark = 0 LIMIT 0";

/// Runs a statement that waits no longer for others than its client does.
async fn call<T: Send + Unpin + for<'r> FromRow<'r, sqlx::postgres::PgRow>>(
    conn: &mut PgConnection,
    claim: &LeaseClaim,
    select: String,
) -> sqlx::Result<T> {
    let patience = claim.patience;
    let text = format!("{READ_COMMITTED}; SET LOCAL lock_timeout = {patience}; SELECT {select}");
    let rows = sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(conn).await?;
    T::from_row(rows.first().ok_or(sqlx::Error::RowNotFound)?)
}

fn names(claim: &LeaseClaim) -> String {
    let literal = |text: &str| Dialect::Postgres.literal(text);
    format!("{}, {}", literal(claim.resource.as_str()), literal(&claim.owner))
}

impl LeaseStatements for Postgres {
    const LEASES: LeaseQueries = LEASES;

    fn acquire<'a>(
        conn: &'a mut PgConnection,
        claim: &'a LeaseClaim,
    ) -> BoxFuture<'a, sqlx::Result<AcquireAnswer>> {
        Box::pin(async move {
            let (names, shared, lasting) = (names(claim), claim.shared, claim.lasting);
            let acquire = format!("* FROM fencing_lease_acquire({names}, {shared}, {lasting})");
            type Answer = (Option<i64>, Option<i64>, bool, Option<String>);
            let (granted, left, shared, holder): Answer = call(conn, claim, acquire).await?;
            Ok(match granted {
                Some(token) => AcquireAnswer::Granted(token),
                None => {
                    let (left, shared) = (left.unwrap_or(0), shared && !claim.shared);
                    AcquireAnswer::Held { left, shared, holder }
                }
            })
        })
    }

    fn renew<'a>(
        conn: &'a mut PgConnection,
        claim: &'a LeaseClaim,
        token: i64,
    ) -> BoxFuture<'a, sqlx::Result<bool>> {
        Box::pin(async move {
            let (names, lasting) = (names(claim), claim.lasting);
            let renew = format!("fencing_lease_renew({names}, {token}, {lasting})");
            call(conn, claim, renew).await.map(|(renewed,)| renewed)
        })
    }

    fn release<'a>(
        conn: &'a mut PgConnection,
        claim: &'a LeaseClaim,
        rest: Duration,
    ) -> BoxFuture<'a, sqlx::Result<ReleaseAnswer>> {
        Box::pin(async move {
            let (names, rest) = (names(claim), millis(rest));
            let release = format!("fencing_lease_release({names}, {rest})::bigint");
            call(conn, claim, release).await.map(|(number,): (i64,)| number.into())
        })
    }

    fn drain<'a>(
        conn: &'a mut PgConnection,
        claim: &'a LeaseClaim,
    ) -> BoxFuture<'a, sqlx::Result<()>> {
        Box::pin(async move {
            let (name, lasting) =
                (Dialect::Postgres.literal(claim.resource.as_str()), claim.lasting);
            let drain = format!("true FROM fencing_lease_drain({name}, {lasting})");
            call(conn, claim, drain).await.map(|(_,): (bool,)| ())
        })
    }

    const NOTIFIES: bool = true;

    fn notify<'a>(conn: &'a mut PgConnection, channel: &'a str) -> BoxFuture<'a, sqlx::Result<()>> {
        Box::pin(async move {
            let notify = AssertSqlSafe(format!("NOTIFY \"{channel}\""));
            sqlx::raw_sql(notify).execute(conn).await.map(drop)
        })
    }

    fn listen(pool: Pool<Postgres>) -> BoxFuture<'static, sqlx::Result<Box<dyn Channels>>> {
        Box::pin(channels::open(pool))
    }

    fn probe(conn: &mut PgConnection) -> BoxFuture<'_, sqlx::Result<()>> {
        Box::pin(async move { sqlx::raw_sql(PROBE).execute(conn).await.map(drop) })
    }
}
