//! The database notifies waiters of releases, on a connection of their own. It is a hint.

use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Postgres};
use support::postgres::{PgBouncer, PostgresServer};
use tokio::task::JoinHandle;

use super::suite::ready;
use crate::common::*;

/// So long that a poll comes too late for a test.
pub const NEVER: Duration = Duration::from_secs(3600);

fn service(pool: PgPool) -> SqlLockBuilder<Postgres> {
    SqlLock::builder(pool).ttl(NEVER).budget(Duration::from_secs(20)).wait(NEVER).retry_delay(NEVER)
}

async fn until_listening(pool: &PgPool, many: i64) {
    let listening = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE 'LISTEN %'";
    until("they listen", async || sqlx::query_scalar::<_, i64>(listening).fetch_one(pool).await.unwrap() >= many).await;
    // They have asked once more since.
    sleep(Duration::from_millis(200)).await;
}

fn waiter(lock: SqlLock<Postgres>) -> JoinHandle<Lease> {
    tokio::spawn(async move { lock.acquire(&resource()).await.unwrap() })
}

#[tokio::test]
async fn a_release_notifies_a_waiter_elsewhere() {
    let place = ready().await;
    let lease = service(place.other()).build().unwrap().acquire(&resource()).await.unwrap();
    let waiters: Vec<_> = (0..4).map(|_| waiter(service(place.other()).build().unwrap())).collect();
    until_listening(&place.pool, 4).await;
    release(lease).await;
    // Whoever it is, the next one is notified in turn.
    let all = waiters.into_iter().map(async |waiter| release(waiter.await.unwrap()).await);
    timeout(LONG, futures_util::future::join_all(all)).await.unwrap();
}

/// After a lost wake-up a waiter ignores notifications for a moment. It follows one of that moment afterwards.
#[tokio::test]
async fn a_release_in_the_pause_after_forged_ones_is_followed() {
    let place = ready().await;
    let holder = service(place.other()).build().unwrap();
    for _ in 0..3 {
        let lease = holder.acquire(&resource()).await.unwrap();
        let waiter = waiter(service(place.other()).build().unwrap());
        until_listening(&place.pool, 1).await;
        // The pauses grow to 100 ms, so that the release comes in one.
        for _ in 0..60 {
            sqlx::raw_sql("NOTIFY fencing, 'invoice/42'").execute(&place.pool).await.unwrap();
            sleep(Duration::from_millis(20)).await;
        }
        assert!(!waiter.is_finished());
        release(lease).await;
        release(timeout(LONG, waiter).await.unwrap().unwrap()).await;
    }
}

/// A pooler in transaction mode shares sessions out: a notification would reach somebody else, in the
/// middle of their statements. So nothing listens in those sessions.
#[tokio::test]
async fn behind_a_pooler_it_polls() {
    let server = PostgresServer::with(&["fsync=off", "max_connections=100"]);
    let direct = server.database().await;
    let pooler = PgBouncer::before(&server, 2);
    let options = pooler.on(direct.get_database().unwrap());
    let pool = || PgPoolOptions::new().max_connections(4).connect_lazy_with(options.clone());
    sql::migrate(&PgPoolOptions::new().connect_lazy_with(direct.clone())).await.unwrap();
    let lock = || service(pool()).retry_delay(Duration::from_millis(20)).build().unwrap();
    let mut last = None;
    for _ in 0..5 {
        let lease = lock().acquire(&resource()).await.unwrap();
        assert!(Some(lease.token()) > last);
        last = Some(lease.token());
        let other = lock();
        held(other.try_acquire(&resource()).await);
        let waiter = waiter(other);
        // It would listen by now.
        sleep(Duration::from_millis(300)).await;
        release(lease).await;
        release(timeout(LONG, waiter).await.unwrap().unwrap()).await;
    }
    let pool = pool();
    let mut sessions = [pool.begin().await.unwrap(), pool.begin().await.unwrap()];
    for session in &mut sessions {
        let listens = sqlx::raw_sql("SELECT pg_listening_channels()");
        assert_eq!(listens.fetch_all(&mut **session).await.unwrap().len(), 0);
    }
}
