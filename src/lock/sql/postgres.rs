use futures_util::future::BoxFuture;
use sqlx::error::DatabaseError;
use sqlx::postgres::PgConnectOptions;
use sqlx::{PgConnection, Postgres};

use super::backend::{AcquireAnswer, Backend, Claim, Refusal, RenewAnswer};

/// Takes the row in one statement.
///
/// `own`: settings of this statement alone. What waits in the server for a row must not
/// wait for much longer than its client does; and a grant is on disk before it is
/// answered, or a crash would grant its token again.
///
/// `seen`: a row that is closed is only read. The upsert would lock it even where it
/// refuses, which costs a commit.
///
/// `taken`: the row counts as the upsert finds it, after any wait, and so does the time:
/// `now()` would be that of the statement's begin. The mark may be above the row's token
/// if the tokens came from elsewhere before, or the row was lost.
const ACQUIRE: &str = "
    WITH own AS MATERIALIZED (
        SELECT set_config('lock_timeout', $4, true),
            CASE current_setting('synchronous_commit') WHEN 'off'
                THEN set_config('synchronous_commit', 'on', true) END
    ), seen AS MATERIALIZED (
        SELECT expires_at FROM fencing_leases
        WHERE resource = $1 AND expires_at > clock_timestamp()
    ), taken AS (
        INSERT INTO fencing_leases AS lease (resource, token, owner, expires_at)
        SELECT $1,
            coalesce((SELECT token FROM fencing_marks WHERE resource = $1), 0) + 1,
            $2, clock_timestamp() + $3 * interval '1 millisecond'
        FROM own WHERE NOT EXISTS (SELECT FROM seen)
        ON CONFLICT (resource) DO UPDATE SET
            token = greatest(lease.token + 1, EXCLUDED.token),
            owner = EXCLUDED.owner, expires_at = EXCLUDED.expires_at
        WHERE lease.expires_at <= clock_timestamp()
        RETURNING token
    )
    SELECT (SELECT token FROM taken), (
        SELECT ceil(extract(epoch FROM
            least(expires_at, clock_timestamp() + interval '1 year') - clock_timestamp()
        ) * 1000)::bigint FROM seen
    )";

/// A released row stays released, whatever was still on its way.
const RENEW: &str = "
    UPDATE fencing_leases SET expires_at = clock_timestamp() + $4 * interval '1 millisecond'
    WHERE resource = $1 AND owner = $2 AND token = $3 AND expires_at <> '-infinity'";

const IS_OWN: &str = "
    SELECT owner = $2 AND token = $3 FROM fencing_leases WHERE resource = $1";

const RELEASE: &str = "
    UPDATE fencing_leases SET expires_at = '-infinity'
    WHERE resource = $1 AND owner = $2
        AND (expires_at > clock_timestamp() OR expires_at = '-infinity')";

const PROBE: &str = "
    SELECT FROM fencing_leases AS lease, fencing_marks AS mark
    WHERE lease.token = 0 AND mark.token = 0 LIMIT 0";

impl Backend for Postgres {
    fn name(options: &PgConnectOptions) -> String {
        let place = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        let database = options.get_database().unwrap_or(options.get_username());
        format!("postgres://{place}/{database}")
    }

    fn refusal(error: &dyn DatabaseError) -> Refusal {
        match error.code().as_deref() {
            // serialization_failure, deadlock_detected, lock_not_available
            Some("40001" | "40P01" | "55P03") => Refusal::Conflict,
            // undefined_table
            Some("42P01") => Refusal::NoTable,
            // insufficient_privilege; invalid_authorization, invalid_password
            Some("42501" | "28000" | "28P01") => Refusal::Denied,
            // admin_shutdown, crash_shutdown, database_dropped, idle_session_timeout
            Some("57P01" | "57P02" | "57P04" | "57P05") => Refusal::Closing,
            // cannot_connect_now
            Some("57P03") => Refusal::Starting,
            _ => Refusal::Other,
        }
    }

    fn acquire<'a>(
        conn: &'a mut PgConnection,
        claim: &'a Claim,
    ) -> BoxFuture<'a, sqlx::Result<AcquireAnswer>> {
        Box::pin(async move {
            let rows = sqlx::query_as::<_, (Option<i64>, Option<i64>)>(ACQUIRE)
                .bind(claim.resource.as_str())
                .bind(&claim.owner)
                .bind(claim.lasting)
                .bind(format!("{}ms", claim.patience))
                .fetch_all(conn)
                .await?;
            Ok(match rows.first() {
                Some((Some(token), _)) => AcquireAnswer::Granted(*token),
                Some((None, Some(left))) => AcquireAnswer::Held(*left),
                Some((None, None)) | None => AcquireAnswer::Overtaken,
            })
        })
    }

    fn renew<'a>(
        conn: &'a mut PgConnection,
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
        conn: &'a mut PgConnection,
        claim: &'a Claim,
    ) -> BoxFuture<'a, sqlx::Result<bool>> {
        Box::pin(async move {
            let free = sqlx::query(RELEASE).bind(claim.resource.as_str()).bind(&claim.owner);
            Ok(free.execute(conn).await?.rows_affected() == 1)
        })
    }

    fn probe(conn: &mut PgConnection) -> BoxFuture<'_, sqlx::Result<()>> {
        Box::pin(async move { sqlx::query(PROBE).execute(conn).await.map(drop) })
    }
}
