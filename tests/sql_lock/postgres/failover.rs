//! A replica that lags is promoted: the last lease is lost, and its holder is not.

use std::time::Duration;

use fencing::lock::sql::SqlLock;
use fencing::sql::{self, AdmitError};
use sqlx::{AssertSqlSafe, PgPool, Postgres};
use tokio::time::{sleep, timeout};

use super::place::pool;
use crate::common::resource;
use support::postgres::PostgresServer;

async fn run(pool: &PgPool, statement: &str) {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(pool).await.unwrap();
}

/// Fails over to a replica that has not received the second of two leases. Returns its token, and the
/// database after that.
async fn failed_over(shared: bool) -> (fencing::Token, PostgresServer, PgPool) {
    let mut primary = PostgresServer::start();
    let options = primary.database().await;
    let database = options.get_database().unwrap().to_owned();
    let old = pool(options);
    sql::migrate(&old).await.unwrap();
    let lock = SqlLock::new(old);
    lock.acquire(&resource()).await.unwrap().release().await.unwrap();
    let replica = primary.standby();
    let new = pool(replica.on(&database));
    run(&new, "ALTER SYSTEM SET primary_conninfo = ''").await;
    run(&new, "SELECT pg_reload_conf()").await;
    let cut_off = async {
        let receivers = "SELECT count(*) FROM pg_stat_wal_receiver";
        while sqlx::query_scalar::<_, i64>(receivers).fetch_one(&new).await.unwrap() > 0 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(60), cut_off).await.unwrap();
    let lost = match shared {
        true => lock.acquire_shared(&resource()).await.unwrap().token(),
        false => lock.acquire(&resource()).await.unwrap().token(),
    };
    primary.kill();
    run(&new, "SELECT pg_promote()").await;
    (lost, replica, new)
}

async fn begins(pool: &PgPool, token: fencing::Token) -> Result<(), AdmitError> {
    Ok(sql::begin(pool, &resource(), token).await?.commit().await?)
}

#[tokio::test]
async fn a_token_that_the_failover_lost_is_not_granted_again() {
    let (lost, _replica, new) = failed_over(false).await;
    let lock: SqlLock<Postgres> = SqlLock::new(new.clone());
    let next = lock.acquire(&resource()).await.unwrap();
    assert!(next.token() > lost, "{} after {lost}", next.token());
    begins(&new, next.token()).await.unwrap();
    let refused = begins(&new, lost).await;
    assert!(matches!(refused, Err(AdmitError::Stale(_))), "{refused:?}");
    // It noticed that once.
    let first = next.token().get();
    next.release().await.unwrap();
    assert_eq!(lock.acquire(&resource()).await.unwrap().token().get(), first + 1);
}

#[tokio::test]
async fn nor_is_one_of_a_lock_that_several_share() {
    let (lost, _replica, new) = failed_over(true).await;
    // With a mark, the floor alone does not count for those who join others.
    let mark = fencing::Token::new(1).unwrap();
    begins(&new, mark).await.unwrap();
    let next = SqlLock::new(new).acquire_shared(&resource()).await.unwrap();
    assert!(next.token() > lost, "{} after {lost}", next.token());
}
