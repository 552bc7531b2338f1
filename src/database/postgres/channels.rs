use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::postgres::PgListener;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, FromRow, Pool, Postgres};
use tokio::time::{sleep, timeout};

use crate::database::Channels;

/// Reads this session. A later one has another `backend_start`, or another process.
const OWN_SESSION: &str = "
    SELECT pid, (extract(epoch FROM backend_start) * 1000000)::bigint
    FROM pg_stat_activity WHERE pid = pg_backend_pid()";

/// Time for which a session may outlive its connection.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Opens a connection that listens, unless a pooler may share its session out.
pub(super) async fn open(pool: Pool<Postgres>) -> sqlx::Result<Box<dyn Channels>> {
    if !is_direct(&pool).await? {
        let why = "a pooler may give this session to another client";
        return Err(sqlx::Error::Configuration(why.into()));
    }
    let own = pool.options().clone().min_connections(0).max_connections(1);
    let own = own.connect_lazy_with((*pool.connect_options()).clone());
    let mut listener = PgListener::connect_with(&own).await?;
    listener.eager_reconnect(false);
    Ok(Box::new(PgChannels(listener)))
}

/// Returns whether a connection has a session of its own, which ends with it.
///
/// Behind a pooler it has not: `LISTEN` would stay in a session that the pooler gives to another client,
/// whose connection breaks at a notification in the middle of its statements. So this is checked before
/// anything is left behind: the session of a closed connection must end.
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
    timeout(END_TIMEOUT, ended).await.unwrap_or(Ok(false))
}

struct PgChannels(PgListener);

impl Channels for PgChannels {
    fn listen<'a>(&'a mut self, channel: &'a str, on: bool) -> BoxFuture<'a, sqlx::Result<()>> {
        Box::pin(async move {
            match on {
                true => self.0.listen(channel).await,
                false => self.0.unlisten(channel).await,
            }
        })
    }

    fn notified(&mut self) -> BoxFuture<'_, sqlx::Result<String>> {
        Box::pin(async move {
            // A broken connection has lost notifications: the caller opens another.
            let notification = self.0.try_recv().await?.ok_or(sqlx::Error::WorkerCrashed)?;
            Ok(notification.channel().to_owned())
        })
    }
}
