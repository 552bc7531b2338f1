use futures_util::stream::BoxStream;
use sqlx::{PgConnection, Pool, Postgres};

use super::notifications;
use crate::database::lease::call_function;
use crate::database::{LeaseCall, LeaseClaim, LeaseStatements, TextRow};

const CALL: &str = "
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {patience};
    SELECT * FROM fencing_lease_{function}({arguments})";

impl LeaseStatements for Postgres {
    const LEASES: &'static str = "
        SELECT resource, token, owner, coalesce(part.key, owner),
            CASE WHEN expires_at < 'infinity' THEN greatest(0, coalesce(part.value::bigint / 1000
                - extract(epoch FROM present) * 1000, extract(epoch FROM expires_at - present) * 1000))::bigint
            END, NULL
        FROM (SELECT *, clock_timestamp() AS present FROM fencing_leases
            WHERE resource {after} {resource} AND expires_at > clock_timestamp() ORDER BY resource LIMIT {limit}) AS lease
        LEFT JOIN LATERAL jsonb_each_text(CASE WHEN owner = 'shared' THEN parts END) AS part
            ON part.value::bigint / 1000 > extract(epoch FROM present) * 1000
        ORDER BY resource, 4";

    const END_LEASE: &'static str = "
        WITH ended AS (UPDATE fencing_leases SET expires_at = '-infinity' WHERE resource = {resource}
            AND owner = {owner} AND token = {token} AND expires_at > clock_timestamp() RETURNING resource, token)
        INSERT INTO fencing_audit (resource, from_token, to_token, lowered_at)
        SELECT resource, token, token, clock_timestamp() FROM ended RETURNING 1";

    const PROBE: &'static str = "SELECT FROM fencing_leases AS lease, fencing_last('') AS mark
        WHERE lease.token = 0 AND mark = 0 LIMIT 0";

    const NOTIFY: Option<&'static str> = Some(notifications::NOTIFY);

    async fn listen(pool: Pool<Postgres>) -> sqlx::Result<BoxStream<'static, sqlx::Result<String>>> {
        notifications::listen(pool).await
    }

    async fn call(conn: &mut PgConnection, claim: &LeaseClaim, call: LeaseCall) -> sqlx::Result<TextRow> {
        call_function::<Postgres>(conn, CALL, claim, call).await
    }
}
