use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::postgres::PgListener;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, FromRow, PgConnection, Pool, Postgres, Row};
use tokio::time::{sleep, timeout};

use super::postgres_parts::{DRAIN, LEAVE, RENEW_PART, SHARE, SHORTEN_PART};
use crate::database::{
    AcquireAnswer, Channels, Claim, LeaseStatements, ReleaseAnswer, literal, millis,
};

/// Acquires the row in one statement.
///
/// `own`: settings of this statement alone. In the server it must not wait for the row much
/// longer than its client does; and a grant is on disk before it is answered, or a crash
/// would grant its token again.
///
/// `seen`: a row that is closed is only read. The upsert would lock it even where it
/// refuses, which costs a commit.
///
/// `noticed`: the row is closed for longer than a grant allows, so the clock was set back. It
/// counts from now on, and that ends when the clock was put right. By hand a row may be closed until
/// infinity.
///
/// `acquired`: the row counts as the upsert finds it, after any wait, and so does the time:
/// `now()` would be the time when the statement began. The mark may be above the row's token
/// if the tokens came from elsewhere before, or the row was lost; and the floor stands for a mark that was
/// pruned. The function reads both: it sees no temporary table with the name of the marks.
const ACQUIRE: &str = "
    WITH own AS MATERIALIZED (
        SELECT set_config('lock_timeout', '$patience', true),
            CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
                THEN set_config('synchronous_commit', 'on', true) END
    ), here AS MATERIALIZED (
        SELECT *, coalesce(expires_at < 'infinity' AND expires_at > present + closed_for, false) AS odd
        FROM (SELECT *, clock_timestamp() AS present FROM fencing_leases WHERE resource = $resource)
            AS lease
    ), seen AS MATERIALIZED (
        SELECT present,
            CASE WHEN odd THEN coalesce(odd_since > present, true) ELSE odd_since IS NOT NULL END
                AS is_news,
            CASE WHEN odd THEN least(odd_since, present) + closed_for ELSE expires_at END AS expires_at,
            parts IS NOT NULL AND owner = 'shared' AS shared, owner, parts
        FROM here
        WHERE expires_at > present AND NOT (odd AND coalesce(odd_since + closed_for <= present, false))
    ), noticed AS (
        UPDATE fencing_leases AS lease SET odd_since = CASE
            WHEN lease.expires_at < 'infinity'
                AND lease.expires_at > clock_timestamp() + lease.closed_for
            THEN clock_timestamp() END
        FROM own, seen
        WHERE is_news AND resource = $resource AND (lease.odd_since IS NOT NULL
            OR lease.expires_at > clock_timestamp() + lease.closed_for)
    ), acquired AS (
        INSERT INTO fencing_leases AS lease (resource, token, owner, expires_at, closed_for)
        SELECT $resource,
            fencing_last($resource) + 1,
            $owner, clock_timestamp() + $lasting * interval '1 millisecond',
            $lasting * interval '1 millisecond'
        FROM own WHERE NOT EXISTS (SELECT FROM seen)
        ON CONFLICT (resource) DO UPDATE SET
            token = greatest(lease.token + 1, EXCLUDED.token), owner = EXCLUDED.owner,
            expires_at = EXCLUDED.expires_at, closed_for = EXCLUDED.closed_for, odd_since = NULL,
            parts = NULL, draining_since = NULL, draining_until = NULL
        WHERE lease.expires_at <= clock_timestamp() OR lease.expires_at < 'infinity'
            AND lease.expires_at > clock_timestamp() + lease.closed_for
            AND lease.odd_since + lease.closed_for <= clock_timestamp()
        RETURNING token
    )
    SELECT (SELECT token FROM acquired), (
        SELECT ceil(extract(epoch FROM
            least(expires_at, present + interval '1 year') - present
        ) * 1000)::bigint FROM seen
    ), (SELECT shared FROM seen), (SELECT CASE WHEN shared
        THEN (SELECT key FROM jsonb_each_text(parts) ORDER BY value::bigint DESC LIMIT 1)
        ELSE owner END FROM seen)";

/// Renews the row. A released row stays released, whatever was still on its way. `own` as above.
const RENEW: &str = "
    WITH own AS MATERIALIZED (SELECT set_config('lock_timeout', '$patience', true))
    UPDATE fencing_leases
    SET expires_at = clock_timestamp() + $lasting * interval '1 millisecond',
        closed_for = $lasting * interval '1 millisecond', odd_since = NULL FROM own
    WHERE resource = $resource AND owner = $owner AND token = $token AND expires_at <> '-infinity'";

const RELEASE: &str = "
    WITH own AS MATERIALIZED (SELECT set_config('lock_timeout', '$patience', true))
    UPDATE fencing_leases SET expires_at = '-infinity' FROM own
    WHERE resource = $resource AND owner = $owner
        AND (expires_at > clock_timestamp() OR expires_at = '-infinity')";

/// Leaves the row closed for the rest. The owner's name gets a mark: a renewal that is still on its way
/// must not find it.
const SHORTEN: &str = "
    WITH own AS MATERIALIZED (SELECT set_config('lock_timeout', '$patience', true))
    UPDATE fencing_leases SET owner = $owner || '.',
        expires_at = least(expires_at, clock_timestamp() + $rest * interval '1 millisecond') FROM own
    WHERE resource = $resource
        AND (owner = $owner AND expires_at > clock_timestamp() OR owner = $owner || '.')";

const PROBE: &str = "
    SELECT FROM fencing_leases AS lease, fencing_last('') AS mark
    WHERE lease.token = 0 AND mark = 0 LIMIT 0";

/// The session that asks. Whoever uses it later sees another `backend_start`, or another process.
const OWN_SESSION: &str = "
    SELECT pid, (extract(epoch FROM backend_start) * 1000000)::bigint
    FROM pg_stat_activity WHERE pid = pg_backend_pid()";

/// For how long a session may outlive its connection.
const ENDS: Duration = Duration::from_secs(1);

/// Puts the values into the text; [`literal`] says why they are not sent apart.
fn filled(statement: &str, claim: &Claim, token: i64) -> AssertSqlSafe<String> {
    let statement = statement
        .replace("$resource", &literal(claim.resource.as_str()))
        .replace("$owner", &literal(&claim.owner))
        .replace("$lasting", &claim.lasting.to_string())
        .replace("$patience", &format!("{}ms", claim.patience))
        .replace("$token", &token.to_string());
    AssertSqlSafe(statement)
}

impl LeaseStatements for Postgres {
    fn acquire<'a>(
        conn: &'a mut PgConnection,
        claim: &'a Claim,
    ) -> BoxFuture<'a, sqlx::Result<AcquireAnswer>> {
        Box::pin(async move {
            let statement = if claim.shared { SHARE } else { ACQUIRE };
            let rows = sqlx::raw_sql(filled(statement, claim, 0)).fetch_all(conn).await?;
            type Answer = (Option<i64>, Option<i64>, Option<bool>, Option<String>);
            let answer = rows.first().map(Answer::from_row).transpose()?;
            Ok(match answer {
                Some((Some(token), ..)) => AcquireAnswer::Granted(token),
                Some((None, Some(left), shared, holder)) => {
                    AcquireAnswer::Held { left, shared: shared == Some(true), holder }
                }
                Some((None, None, ..)) | None => AcquireAnswer::Overtaken,
            })
        })
    }

    fn renew<'a>(
        conn: &'a mut PgConnection,
        claim: &'a Claim,
        token: i64,
    ) -> BoxFuture<'a, sqlx::Result<bool>> {
        Box::pin(async move {
            let renew = if claim.shared { RENEW_PART } else { RENEW };
            let renew = sqlx::raw_sql(filled(renew, claim, token));
            Ok(renew.execute(conn).await?.rows_affected() == 1)
        })
    }

    fn release<'a>(
        conn: &'a mut PgConnection,
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
            let statement = statement.replace("$rest", &millis(rest).to_string());
            let release = sqlx::raw_sql(filled(&statement, claim, 0));
            if !claim.shared {
                let held = release.execute(conn).await?.rows_affected() == 1;
                return Ok(ReleaseAnswer::alone(held));
            }
            let left = release.fetch_all(conn).await?;
            Ok(match left.first().map(|row| row.try_get(0)).transpose()? {
                Some(true) => ReleaseAnswer::Released,
                Some(false) => ReleaseAnswer::Left,
                None => ReleaseAnswer::Lapsed,
            })
        })
    }

    fn drain<'a>(conn: &'a mut PgConnection, claim: &'a Claim) -> BoxFuture<'a, sqlx::Result<()>> {
        Box::pin(
            async move { sqlx::raw_sql(filled(DRAIN, claim, 0)).execute(conn).await.map(drop) },
        )
    }

    const TELLS: bool = true;

    fn tell<'a>(conn: &'a mut PgConnection, channel: &'a str) -> BoxFuture<'a, sqlx::Result<()>> {
        Box::pin(async move {
            let notify = AssertSqlSafe(format!("NOTIFY \"{channel}\""));
            sqlx::raw_sql(notify).execute(conn).await.map(drop)
        })
    }

    fn listen(pool: Pool<Postgres>) -> BoxFuture<'static, sqlx::Result<Box<dyn Channels>>> {
        Box::pin(async move {
            if !is_direct(&pool).await? {
                let why = "a pooler may share the sessions of this database out";
                return Err(sqlx::Error::Configuration(why.into()));
            }
            let own = pool.options().clone().min_connections(0).max_connections(1);
            let own = own.connect_lazy_with((*pool.connect_options()).clone());
            let mut listener = PgListener::connect_with(&own).await?;
            listener.eager_reconnect(false);
            let channels: Box<dyn Channels> = Box::new(Listener(listener));
            Ok(channels)
        })
    }

    fn probe(conn: &mut PgConnection) -> BoxFuture<'_, sqlx::Result<()>> {
        Box::pin(async move { sqlx::raw_sql(PROBE).execute(conn).await.map(drop) })
    }
}

/// Reports whether a connection has a session of its own, which ends with it.
///
/// Behind a pooler it has not. `LISTEN` would stay in a session that the pooler gives to somebody
/// else, and a notification in the middle of their statements breaks their connection. So this
/// looks before anything is left behind: the session of a closed connection must end.
async fn is_direct(pool: &Pool<Postgres>) -> sqlx::Result<bool> {
    let mut short = pool.connect_options().connect().await?;
    let rows = sqlx::raw_sql(OWN_SESSION).fetch_all(&mut short).await?;
    let own = rows.first().map(<(i32, Option<i64>)>::from_row).transpose()?;
    let Some((pid, Some(start))) = own else { return Ok(false) };
    let seen = || async {
        let seen = format!(
            "SELECT FROM pg_stat_activity
            WHERE pid = {pid} AND (extract(epoch FROM backend_start) * 1000000)::bigint = {start}"
        );
        let rows =
            sqlx::raw_sql(AssertSqlSafe(seen)).fetch_all(&mut *pool.acquire().await?).await?;
        Ok::<_, sqlx::Error>(!rows.is_empty())
    };
    // Otherwise the pool has sessions of another server.
    if !seen().await? {
        return Ok(false);
    }
    short.close().await?;
    let ended = async {
        let mut pause = Duration::from_millis(5);
        while seen().await? {
            sleep(pause).await;
            pause *= 2;
        }
        Ok(true)
    };
    timeout(ENDS, ended).await.unwrap_or(Ok(false))
}

struct Listener(PgListener);

impl Channels for Listener {
    fn listen<'a>(&'a mut self, channel: &'a str, on: bool) -> BoxFuture<'a, sqlx::Result<()>> {
        Box::pin(async move {
            match on {
                true => self.0.listen(channel).await,
                false => self.0.unlisten(channel).await,
            }
        })
    }

    fn told(&mut self) -> BoxFuture<'_, sqlx::Result<String>> {
        Box::pin(async move {
            // What was told while the connection was broken is lost: the caller opens another.
            let told = self.0.try_recv().await?.ok_or(sqlx::Error::WorkerCrashed)?;
            Ok(told.channel().to_owned())
        })
    }
}
