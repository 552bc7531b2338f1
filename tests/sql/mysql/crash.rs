//! A server that dies.

use std::time::Duration;

use fencing::sql::{self, AdmitError};
use sqlx::mysql::MySqlPoolOptions;

use super::place::pool;
use crate::common::{resource, stale, token};
use support::mariadb::MariadbServer;

#[tokio::test]
async fn a_server_killed_in_mid_transaction_is_no_refusal() {
    let mut server = MariadbServer::start();
    let pool = pool(server.database().await);
    sql::migrate(&pool).await.unwrap();
    sql::begin(&pool, &resource(), token(33)).await.unwrap().commit().await.unwrap();
    let mut one = pool.begin().await.unwrap();
    sql::admit(&mut one, &resource(), token(34)).await.unwrap();
    let mut two = pool.begin().await.unwrap();
    server.kill();
    for tx in [&mut one, &mut two] {
        let error = sql::admit(tx, &resource(), token(34)).await.unwrap_err();
        assert!(matches!(error, AdmitError::Database(_)), "{error:?}");
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
    let place = super::place::Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    let mut tx = place.pool.begin().await.unwrap();
    sql::admit(&mut tx, &resource(), token(34)).await.unwrap();
    let id = sqlx::query_scalar::<_, u64>("SELECT CONNECTION_ID()");
    let id = id.fetch_one(&mut *tx).await.unwrap();
    let kill = sqlx::AssertSqlSafe(format!("KILL {id}"));
    sqlx::query(kill).execute(&place.other()).await.unwrap();
    let error = sql::admit(&mut tx, &resource(), token(34)).await.unwrap_err();
    assert!(matches!(error, AdmitError::Database(_)), "{error:?}");
    assert!(tx.commit().await.is_err());
    sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
}

#[tokio::test]
async fn a_server_killed_while_many_commit_forgets_no_mark() {
    let mut server = MariadbServer::start();
    let options = server.database().await;
    let pool = pool(options.clone());
    sql::migrate(&pool).await.unwrap();
    let create = "CREATE TABLE files (path VARCHAR(255) PRIMARY KEY, token BIGINT NOT NULL)";
    sqlx::query(create).execute(&pool).await.unwrap();
    sqlx::query("INSERT INTO files VALUES ('files/a', 0)").execute(&pool).await.unwrap();
    let done = crate::common::Done::default();
    // It does not look for a dead server for long.
    let writing = MySqlPoolOptions::new().acquire_timeout(Duration::from_secs(2));
    let writing = writing.connect_lazy_with(options);
    let write = move |number: u64| {
        let pool = writing.clone();
        async move {
            let mut tx = sql::begin(&pool, &resource(), token(number)).await?;
            let update = sqlx::query("UPDATE files SET token = ?").bind(number.cast_signed());
            update.execute(&mut *tx).await?;
            Ok(tx.commit().await?)
        }
    };
    for round in 1..=2 {
        let writers = crate::common::until_it_dies(&done, round * 1_000_000, write.clone());
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
        let file = sqlx::query_scalar::<_, i64>("SELECT token FROM files").fetch_one(&pool).await;
        assert!(mark.get().cast_signed() >= file.unwrap(), "a write without its mark");
        assert!(mark.get() >= done.highest(), "what was said to be done is lost");
        assert!(done.highest() > round * 1_000_000, "nothing was done");
        stale(sql::begin(&pool, &resource(), token(mark.get() - 1)).await);
    }
}
