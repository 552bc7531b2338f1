use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{BoxStream, try_unfold};
use sqlx::postgres::PgListener;
use sqlx::{ConnectOptions, Connection, Pool, Postgres};
use tokio::time::{sleep, timeout};

use crate::database::Dialect;

/// Names the sessions. A later one has another `backend_start`, or another process.
const SESSIONS: &str = "
    SELECT pid || ' ' || (extract(epoch FROM backend_start) * 1000000)::bigint FROM pg_stat_activity";

/// How long a session may outlive its connection.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// One channel for all resources: the server wakes every session that listens, whatever the channel is.
const CHANNEL: &str = "fencing";

pub(super) const NOTIFY: &str = "SELECT pg_notify('fencing', {resource})";

/// Opens a connection that listens, unless a pooler may share its session out.
pub(super) async fn listen(pool: Pool<Postgres>) -> sqlx::Result<BoxStream<'static, sqlx::Result<String>>> {
    if !is_direct(&pool).await? {
        let why = "a pooler may give this session to other clients";
        return Err(sqlx::Error::Configuration(why.into()));
    }
    let own = pool.options().clone().min_connections(0).max_connections(1);
    let own = own.connect_lazy_with((*pool.connect_options()).clone());
    let mut listener = PgListener::connect_with(&own).await?;
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    let released = try_unfold(listener, async |mut listener| {
        // A broken connection has lost notifications: the caller opens another.
        let notification = listener.try_recv().await?;
        Ok(notification.map(|released| (released.payload().to_owned(), listener)))
    });
    Ok(released.boxed())
}

/// Returns whether a connection has a session of its own, which ends with it.
///
/// Behind a pooler it has not: `LISTEN` would stay in a session that the pooler gives to another client,
/// whose connection breaks at a notification in the middle of its statements. So this is checked before
/// anything is left behind: the session of a closed connection must end.
async fn is_direct(pool: &Pool<Postgres>) -> sqlx::Result<bool> {
    let mut short = pool.connect_options().connect().await?;
    let own = format!("{SESSIONS} WHERE pid = pg_backend_pid()");
    let Some(own) = Postgres::first_text(&mut short, own).await? else { return Ok(false) };
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
        let mut pause = Duration::from_millis(5);
        while seen().await? {
            sleep(pause).await;
            pause *= 2;
        }
        Ok(true)
    };
    timeout(END_TIMEOUT, ended).await.unwrap_or(Ok(false))
}
