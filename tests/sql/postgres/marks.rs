//! Marks of a fence on a replica that is behind.

use sqlx::postgres::PgPoolOptions;
use support::postgres::PostgresServer;

use super::setup::*;

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
