//! The database notifies waiters of releases, on a connection of their own. It is a hint.

use std::time::{Duration, Instant};

use fencing::lock::AcquireError;
use fencing::lock::sql::{SqlLock, SqlLockBuilder};
use fencing::sql;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool, Postgres};
use support::pgbouncer::PgBouncer;
use support::postgres::PostgresServer;
use tokio::time::timeout;

use crate::common::{LONG, resource};
use crate::postgres::place::Place;

/// So long that a poll comes too late for a test.
const NEVER: Duration = Duration::from_secs(3600);

fn service(pool: PgPool) -> SqlLockBuilder<Postgres> {
    SqlLock::builder(pool).ttl(NEVER).wait(NEVER).retry_delay(NEVER)
}

async fn migrated() -> Place {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    place
}

/// Waits until so many connections listen.
async fn until_listening(pool: &PgPool, many: i64) {
    let listening = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE 'LISTEN %'";
    let end = Instant::now() + LONG;
    while sqlx::query_scalar::<_, i64>(listening).fetch_one(pool).await.unwrap() < many {
        assert!(Instant::now() < end, "they do not listen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // They have asked once more since.
    tokio::time::sleep(Duration::from_millis(200)).await;
}

#[tokio::test]
async fn a_release_notifies_a_waiter_elsewhere() {
    let place = migrated().await;
    let lease = service(place.other()).build().unwrap().acquire(&resource()).await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..4 {
        let lock = service(place.other()).build().unwrap();
        waiters.push(tokio::spawn(async move {
            lock.acquire(&resource()).await.unwrap().release().await.unwrap();
        }));
    }
    until_listening(&place.pool, 4).await;
    lease.release().await.unwrap();
    for waiter in waiters {
        timeout(LONG, waiter).await.unwrap().unwrap();
    }
}

/// After a lost wake-up a waiter ignores notifications for a moment. It follows one of that moment afterwards.
#[tokio::test]
async fn a_release_in_the_pause_after_forged_ones_is_followed() {
    let place = migrated().await;
    let holder = service(place.other()).build().unwrap();
    for _ in 0..3 {
        let lease = holder.acquire(&resource()).await.unwrap();
        let lock = service(place.other()).build().unwrap();
        let waiter = tokio::spawn(async move { lock.acquire(&resource()).await });
        until_listening(&place.pool, 1).await;
        let listens = "SELECT query FROM pg_stat_activity
            WHERE datname = current_database() AND query LIKE 'LISTEN %'";
        let query: String = sqlx::query_scalar(listens).fetch_one(&place.pool).await.unwrap();
        let forged = query.replace("LISTEN", "NOTIFY");
        // The pauses grow to 100 ms, so that the release comes in one.
        for _ in 0..60 {
            sqlx::raw_sql(AssertSqlSafe(forged.clone())).execute(&place.pool).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!waiter.is_finished());
        lease.release().await.unwrap();
        let lease = timeout(LONG, waiter).await.unwrap().unwrap().unwrap();
        lease.release().await.unwrap();
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
        let held = other.try_acquire(&resource()).await.map(drop);
        assert!(matches!(held, Err(AcquireError::Held { .. })), "{held:?}");
        let waiter = tokio::spawn(async move {
            let lease = other.acquire(&resource()).await.unwrap();
            lease.release().await.unwrap();
        });
        // It would listen by now.
        tokio::time::sleep(Duration::from_millis(300)).await;
        lease.release().await.unwrap();
        timeout(LONG, waiter).await.unwrap().unwrap();
    }
    let pool = pool();
    let mut sessions = [pool.begin().await.unwrap(), pool.begin().await.unwrap()];
    for session in &mut sessions {
        let listens = sqlx::raw_sql("SELECT pg_listening_channels()");
        assert_eq!(listens.fetch_all(&mut **session).await.unwrap().len(), 0);
    }
}
