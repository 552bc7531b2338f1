//! A server or a session that dies.

use std::time::Duration;

use fencing::sql::{self, AdmitError};
use sqlx::pool::PoolOptions;

use super::Server;
use super::place::{self, Db, pool};
use super::setup::{migrated, number, raise, run};
use crate::common::{Done, resource, stale, token, until_it_dies};

fn is_no_refusal(result: Result<(), AdmitError>) {
    assert!(matches!(result, Err(AdmitError::Database(_))), "{result:?}");
}

#[tokio::test]
async fn a_server_killed_in_mid_transaction_is_no_refusal() {
    let mut server = Server::start();
    let pool = pool(server.database().await);
    sql::migrate(&pool).await.unwrap();
    raise(&pool, &resource(), 33).await;
    let mut one = pool.begin().await.unwrap();
    sql::admit(&mut one, &resource(), token(34)).await.unwrap();
    let mut two = pool.begin().await.unwrap();
    server.kill();
    for tx in [&mut one, &mut two] {
        is_no_refusal(sql::admit(tx, &resource(), token(34)).await);
    }
    drop((one, two));
    server.restart();
    // What was committed is there, what was not is not.
    assert_eq!(sql::highest(&pool, &resource()).await.unwrap(), Some(token(33)));
    stale(sql::begin(&pool, &resource(), token(32)).await);
    sql::begin(&pool, &resource(), token(34)).await.unwrap();
}

#[tokio::test]
async fn a_session_that_is_killed_is_no_refusal() {
    let place = migrated().await;
    let mut tx = place.pool.begin().await.unwrap();
    sql::admit(&mut tx, &resource(), token(34)).await.unwrap();
    place.end_sessions().await;
    is_no_refusal(sql::admit(&mut tx, &resource(), token(34)).await);
    assert!(tx.commit().await.is_err());
    sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
}

#[tokio::test]
async fn a_server_killed_while_many_commit_forgets_no_mark() {
    let mut server = Server::start();
    let options = server.database().await;
    let pool = pool(options.clone());
    sql::migrate(&pool).await.unwrap();
    run(&pool, "CREATE TABLE files (path VARCHAR(255) PRIMARY KEY, token BIGINT NOT NULL)").await;
    run(&pool, "INSERT INTO files VALUES ('files/a', 0)").await;
    let done = Done::default();
    // It does not look for a dead server for long.
    let writing = PoolOptions::<Db>::new().acquire_timeout(Duration::from_secs(2));
    let writing = writing.connect_lazy_with(options);
    let write = move |number: u64| {
        let pool = writing.clone();
        async move {
            let mut tx = sql::begin(&pool, &resource(), token(number)).await?;
            let update = sqlx::query(place::sql("UPDATE files SET token = $1"));
            update.bind(number.cast_signed()).execute(&mut *tx).await?;
            Ok(tx.commit().await?)
        }
    };
    for round in 1..=2 {
        let writers = until_it_dies(&done, round * 1_000_000, write.clone());
        while done.highest() <= round * 1_000_000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_millis(200 * round)).await;
        server.kill();
        for writer in writers {
            writer.await.unwrap();
        }
        server.restart();
        let mark = sql::highest(&pool, &resource()).await.unwrap().unwrap();
        let file = number(&pool, "SELECT token FROM files").await;
        assert!(mark.get().cast_signed() >= file, "a write without its mark");
        assert!(mark.get() >= done.highest(), "what was said to be done is lost");
        assert!(done.highest() > round * 1_000_000, "nothing was done");
        stale(sql::begin(&pool, &resource(), token(mark.get() - 1)).await);
    }
}
