use futures_util::future::BoxFuture;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError};
use sqlx::{MySql, MySqlConnection};

use super::backend::{AcquireAnswer, Backend, Claim, Refusal, RenewAnswer};

/// The procedures lock the row first and read the clock then; what they do and why stands
/// in the migration. Here no single statement could: its time is that of its begin, it
/// would not be committed where `autocommit` is off, and a transaction of several would
/// stay open for as long as its client is stopped in the middle of it.
const ACQUIRE: &str = "CALL fencing_lease_take(?, ?, ?, ?)";
const RENEW: &str = "CALL fencing_lease_extend(?, ?, ?, ?, ?)";
const RELEASE: &str = "CALL fencing_lease_free(?, ?, ?)";

const PROBE: &str = "
    SELECT 1 FROM fencing_leases AS lease, fencing_marks AS mark
    WHERE lease.token = 0 AND mark.token = 0 LIMIT 0";

/// Names are bound as bytes: a text would be converted from the character set of the
/// connection.
fn name(claim: &Claim) -> (&[u8], &[u8]) {
    (claim.resource.as_str().as_bytes(), claim.owner.as_bytes())
}

/// In whole seconds.
fn patience(claim: &Claim) -> i64 {
    claim.patience.saturating_add(999) / 1000
}

impl Backend for MySql {
    fn name(options: &MySqlConnectOptions) -> String {
        let place = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        format!("mysql://{place}/{}", options.get_database().unwrap_or_default())
    }

    fn refusal(error: &dyn DatabaseError) -> Refusal {
        let Some(error) = error.try_downcast_ref::<MySqlDatabaseError>() else {
            return Refusal::Other;
        };
        match error.number() {
            // Lock wait timeout, deadlock, MariaDB's newer snapshot isolation ("record has
            // changed"), a table altered since the snapshot, a cluster's conflict.
            1205 | 1213 | 1020 | 1412 | 3101 => Refusal::Conflict,
            // No such table, no such procedure.
            1146 | 1305 if error.message().contains("fencing_") => Refusal::NoTable,
            // Access denied: to the database, to this user, to a table or column, without a
            // privilege, to a procedure, without a password.
            1044 | 1045 | 1142 | 1143 | 1227 | 1370 | 1698 => Refusal::Denied,
            // Shutdown, session killed (MariaDB, MySQL), idle for too long.
            1053 | 1927 | 3169 | 4031 => Refusal::Closing,
            _ => Refusal::Other,
        }
    }

    fn acquire<'a>(
        conn: &'a mut MySqlConnection,
        claim: &'a Claim,
    ) -> BoxFuture<'a, sqlx::Result<AcquireAnswer>> {
        Box::pin(async move {
            let (resource, owner) = name(claim);
            let take = sqlx::query_as::<_, (Option<i64>, Option<i64>)>(ACQUIRE);
            let take = take.bind(resource).bind(owner);
            let take = take.bind(claim.lasting).bind(patience(claim));
            Ok(match take.fetch_all(conn).await?.first() {
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
            let extend = sqlx::query_as::<_, (i64, i64)>(RENEW).bind(resource).bind(owner);
            let extend = extend.bind(token).bind(claim.lasting).bind(patience(claim));
            Ok(match extend.fetch_all(conn).await?.first() {
                Some((1, _)) => RenewAnswer::Renewed,
                Some((_, 1)) => RenewAnswer::Superseded,
                _ => RenewAnswer::Gone,
            })
        })
    }

    fn release<'a>(
        conn: &'a mut MySqlConnection,
        claim: &'a Claim,
    ) -> BoxFuture<'a, sqlx::Result<bool>> {
        Box::pin(async move {
            let (resource, owner) = name(claim);
            let free = sqlx::query_scalar::<_, i64>(RELEASE).bind(resource).bind(owner);
            let free = free.bind(patience(claim));
            Ok(free.fetch_all(conn).await?.first() == Some(&1))
        })
    }

    fn probe(conn: &mut MySqlConnection) -> BoxFuture<'_, sqlx::Result<()>> {
        Box::pin(async move { sqlx::query(PROBE).execute(conn).await.map(drop) })
    }
}
