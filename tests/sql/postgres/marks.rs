//! Marks of a fence, while somebody sleeps in a transaction, and on a replica that is behind.

use std::time::{Duration, Instant};

use fencing::fence::{FenceError, Marks};
use fencing::sql::{self, SqlMarks};
use fencing::{Fence, Resource};

use sqlx::postgres::PgPoolOptions;
use support::postgres::PostgresServer;

use super::setup::{migrated, run};
use crate::common::{resource, token};

/// As where a proxy sends reads to a replica.
#[tokio::test]
async fn a_replica_that_is_behind_passes_no_token() {
    let server = PostgresServer::with(&["fsync=off"]);
    let options = server.database().await;
    let primary = PgPoolOptions::new().connect_lazy_with(options.clone());
    sql::migrate(&primary).await.unwrap();
    let marks = SqlMarks::new(primary.clone());
    marks.raise(&resource(), token(33)).await.unwrap();

    let standby = server.standby();
    let replica =
        PgPoolOptions::new().connect_lazy_with(standby.on(options.get_database().unwrap()));
    // It has copied 33, and stops there.
    run(&replica, "SELECT pg_wal_replay_pause()").await;
    marks.raise(&resource(), token(34)).await.unwrap();
    assert_eq!(sql::highest(&replica, &resource()).await.unwrap(), Some(token(33)));
    SqlMarks::new(replica).raise(&resource(), token(33)).await.unwrap_err();
    assert!(marks.raise(&resource(), token(33)).await.unwrap_err().to_string().contains("stale"));
}

#[tokio::test]
async fn a_client_asleep_in_its_transaction_holds_up_its_own_resource_only() {
    let place = migrated().await;
    let mut asleep = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
    let pool = place.other();
    let fence = Fence::new(SqlMarks::new(pool.clone())).limit(Duration::from_millis(500));
    let newer = (0..2 * pool.options().get_max_connections()).map(|_| {
        let fence = fence.clone();
        tokio::spawn(async move { fence.admit(&resource(), token(34)).await.map(drop) })
    });
    for newer in newer.collect::<Vec<_>>() {
        assert!(matches!(newer.await.unwrap(), Err(FenceError::Unreachable(_))));
    }
    // Sooner than the 20 s that the server lets a statement wait here.
    let (other, end) = (Resource::new("other").unwrap(), Instant::now() + Duration::from_secs(12));
    while fence.admit(&other, token(2)).await.is_err() {
        assert!(Instant::now() < end, "the pool is taken");
    }
    run(&mut *asleep, "SELECT 1").await;
    asleep.commit().await.unwrap();
    let fence = fence.limit(Duration::from_secs(20));
    assert!(fence.admit(&resource(), token(34)).await.is_ok());
}
