//! A server that dies.

use fencing::sql::{self, AdmitError};

use super::place::pool;
use crate::common::{resource, stale, token};
use crate::mariadb::MariadbServer;

#[tokio::test]
async fn a_server_killed_in_mid_transaction_is_no_refusal() {
    let mut server = MariadbServer::start();
    let pool = pool(server.database().await);
    sql::migrate(&pool).await.unwrap();
    sql::begin(&pool, &resource(), token(33)).await.unwrap().commit().await.unwrap();
    let mut one = sql::begin(&pool, &resource(), token(34)).await.unwrap();
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
    let mut tx = sql::begin(&place.pool, &resource(), token(34)).await.unwrap();
    let id = sqlx::query_scalar::<_, u64>("SELECT CONNECTION_ID()");
    let id = id.fetch_one(&mut *tx).await.unwrap();
    let kill = sqlx::AssertSqlSafe(format!("KILL {id}"));
    sqlx::query(kill).execute(&place.other()).await.unwrap();
    let error = sql::admit(&mut tx, &resource(), token(34)).await.unwrap_err();
    assert!(matches!(error, AdmitError::Database(_)), "{error:?}");
    assert!(tx.commit().await.is_err());
    sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
}
