use sqlx::Postgres;

use super::READ_COMMITTED;
use crate::database::LeaseQueries;
use crate::database::lease::LeaseFunctions;

pub const LEASES: LeaseQueries = LeaseQueries {
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
    probe: "SELECT FROM fencing_leases AS lease, fencing_last('') AS mark
        WHERE lease.token = 0 AND mark = 0 LIMIT 0",
    notify: Some("NOTIFY \"{channel}\""),
};

impl LeaseFunctions for Postgres {
    fn call(function: &str, arguments: &str, patience: i64) -> String {
        format!(
            "{READ_COMMITTED}; SET LOCAL lock_timeout = {patience};
            SELECT * FROM fencing_lease_{function}({arguments})"
        )
    }
}
