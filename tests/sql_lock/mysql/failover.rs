//! A replica that lags is promoted: the last lease is lost, and its holder is not. The row and the number of the server
//! are set back by hand.

use fencing::lock::sql::SqlLock;
use fencing::sql::{self, AdmitError};
use fencing::{Resource, Token};
use sqlx::{AssertSqlSafe, MySql, MySqlPool};

use super::place::pool;
use crate::common::resource;
use support::mariadb::MariadbServer;

async fn run(pool: &MySqlPool, statement: &str) {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(pool).await.unwrap();
}

async fn begins(pool: &MySqlPool, resource: &Resource, token: Token) -> Result<(), AdmitError> {
    Ok(sql::begin(pool, resource, token).await?.commit().await?)
}

#[tokio::test]
async fn a_token_that_the_failover_lost_is_not_granted_again() {
    let server = MariadbServer::start();
    let pool = pool(server.database().await);
    sql::migrate(&pool).await.unwrap();
    let lock: SqlLock<MySql> = SqlLock::new(pool.clone());
    let kept = Resource::new("kept").unwrap();
    let other = lock.acquire(&kept).await.unwrap();
    let mut last = Token::new(1).unwrap();
    for (number, shared) in [(7, false), (8, true)] {
        lock.acquire(&resource()).await.unwrap().release().await.unwrap();
        run(&pool, "CREATE TABLE replica AS SELECT * FROM fencing_leases").await;
        let lost = lock.acquire(&resource()).await.unwrap().token();
        run(&pool, "REPLACE INTO fencing_leases SELECT * FROM replica; DROP TABLE replica").await;
        run(&pool, &format!("SET GLOBAL server_id = {number}")).await;
        let next = match shared {
            true => lock.acquire_shared(&resource()).await.unwrap().token(),
            false => {
                let lease = lock.acquire(&resource()).await.unwrap();
                let first = lease.token();
                lease.release().await.unwrap();
                // It noticed that once.
                let second = lock.acquire(&resource()).await.unwrap().token();
                assert_eq!(second.get(), first.get() + 1);
                run(&pool, "UPDATE fencing_leases SET expires_at = 0 WHERE resource = 'files/a'")
                    .await;
                first
            }
        };
        assert!(next > lost && lost > last, "{next} after {lost} after {last}");
        begins(&pool, &resource(), next).await.unwrap();
        let refused = begins(&pool, &resource(), lost).await;
        assert!(matches!(refused, Err(AdmitError::Stale(_))), "{refused:?}");
        last = next;
    }
    // A lease that the replica has goes on.
    begins(&pool, &kept, other.token()).await.unwrap();
}
