use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{BoxStream, try_unfold};
use sqlx::postgres::PgListener;
use sqlx::{ConnectOptions, Connection, Pool, Postgres};
use tokio::time::{sleep, timeout};

use crate::backoff::Backoff;
use crate::database::{Dialect, LeaseStatements};

/// Names the sessions. A later one has another `backend_start`, or another process.
const SESSIONS: &str = "
    SELECT pid || ' ' || (extract(epoch FROM backend_start) * 1000000)::bigint FROM pg_stat_activity";

/// How long a session may outlive its connection.
const END_TIMEOUT: Duration = Duration::from_secs(1);
const CHECKS: usize = 3;

impl LeaseStatements for Postgres {
    const LEASES: &'static str = "
        SELECT encode(convert_to(resource, 'UTF8'), 'hex'), token, owner, coalesce(part.key, owner),
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

    /// `fencing_last` is not run: after a failover it would write.
    const PROBE: &'static str = "
        SELECT 'it takes no writes: it is a standby, or read-only'
        WHERE current_setting('transaction_read_only') = 'on'
        UNION ALL SELECT 'fencing_last may not read the marks or the floor: give all rights again' FROM pg_proc
        WHERE oid = 'fencing_last(text)'::regprocedure AND NOT prosecdef
            AND NOT (has_table_privilege('fencing_marks'::regclass, 'SELECT')
                AND has_table_privilege('fencing_floor'::regclass, 'SELECT'))
        UNION ALL SELECT NULL WHERE 'fencing_lease_acquire(text, text, boolean, bigint)'::regprocedure IS NULL
            OR 'fencing_lease_renew(text, text, bigint, bigint)'::regprocedure IS NULL
            OR 'fencing_lease_release(text, text, bigint)'::regprocedure IS NULL
        UNION ALL (SELECT NULL FROM fencing_leases AS lease, fencing_last('') AS mark
            WHERE lease.token = 0 AND mark = 0 LIMIT 0)";

    const CALL: &'static str = "
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {patience};
        SELECT * FROM fencing_lease_{function}({arguments})";

    /// All resources share one channel: a notification wakes every session that listens to any channel.
    const NOTIFY: Option<&'static str> = Some("SELECT pg_notify('fencing', {resource})");

    /// Opens none where a pooler may share its session out.
    async fn listen(pool: Pool<Postgres>) -> sqlx::Result<BoxStream<'static, sqlx::Result<String>>> {
        // A pooler, too, ends a session in which it has lost a client amid a statement.
        for _ in 0..CHECKS {
            if !ends_with_its_connection(&pool).await? {
                return Err(sqlx::Error::Configuration("a pooler may give this session to other clients".into()));
            }
        }
        let own = pool.options().clone().min_connections(0).max_connections(1);
        let own = own.connect_lazy_with((*pool.connect_options()).clone());
        let mut listener = PgListener::connect_with(&own).await?;
        listener.eager_reconnect(false);
        listener.listen("fencing").await?;
        let released = try_unfold(listener, async |mut listener| {
            // A broken connection has lost notifications: the caller opens another.
            Ok(listener.try_recv().await?.map(|released| (released.payload().to_owned(), listener)))
        });
        Ok(released.boxed())
    }
}

/// Returns whether a connection has a session of its own, which ends with it. Behind a pooler it has not: `LISTEN`
/// would stay in a session that the pooler gives to another client, whose connection breaks at a notification amid its
/// statements. So this is checked before anything is left behind: the session of a closed connection must end.
async fn ends_with_its_connection(pool: &Pool<Postgres>) -> sqlx::Result<bool> {
    let mut short = pool.connect_options().connect().await?;
    let own = format!("{SESSIONS} WHERE pid = pg_backend_pid()");
    let Some(own) = Postgres::first(&mut short, own).await? else { return Ok(false) };
    let seen = async || {
        let sessions = Postgres::column(&mut *pool.acquire().await?, SESSIONS.into()).await?;
        Ok::<_, sqlx::Error>(sessions.contains(&own))
    };
    // Otherwise the pool has sessions of another server.
    if !seen().await? {
        return Ok(false);
    }
    short.close().await?;
    let ended = async {
        let mut backoff = Backoff::new(Duration::from_millis(5), END_TIMEOUT);
        while seen().await? {
            sleep(backoff.pause()).await;
        }
        Ok(true)
    };
    timeout(END_TIMEOUT, ended).await.unwrap_or(Ok(false))
}
