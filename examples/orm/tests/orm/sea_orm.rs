use ::sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, RuntimeErr,
    SqlxPostgresConnector, Statement, TransactionTrait,
};
use fencing::sql::statement::postgres::ADMIT;
use fencing::sql::{self, AdmitError};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgPool};

use super::{FIRST_RUN, SECOND_RUN, example, refusal, report, token};
use support::postgres::PostgresServer;

async fn admit(tx: &DatabaseTransaction, number: u64) -> Result<(), DbErr> {
    let values = [report().as_str().into(), i64::from(token(number)).into()];
    let admit = Statement::from_sql_and_values(DbBackend::Postgres, ADMIT, values);
    tx.execute_raw(admit).await.map(drop)
}

/// The driver's error within the library's.
fn is_retryable(error: &DbErr) -> bool {
    match error {
        DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error)) => {
            sql::is_retryable(&**error)
        }
        _ => false,
    }
}

#[tokio::test]
async fn the_example_writes_and_is_refused() {
    let server = PostgresServer::start();
    let options = server.database().await;
    let database = options.to_url_lossy().to_string();
    assert_eq!(example("sea_orm", &database), FIRST_RUN);
    assert_eq!(example("sea_orm", &database), SECOND_RUN);

    let pool = PgPool::connect_with(options).await.unwrap();
    let files = sqlx::query_as::<_, (String, String)>("SELECT path, body FROM files");
    let files = files.fetch_all(&pool).await.unwrap();
    assert_eq!(files, [("files/report".to_owned(), "again".to_owned())]);
    assert_eq!(sql::highest(&pool, &report()).await.unwrap(), Some(token(34)));
}

#[tokio::test]
async fn its_transactions_and_the_crates_own_keep_each_other_out() {
    let server = PostgresServer::start();
    let options: PgConnectOptions = server.database().await.options([("lock_timeout", "100ms")]);
    let pool = PgPool::connect_with(options).await.unwrap();
    sql::migrate(&pool).await.unwrap();
    // One pool for both: it is the same sqlx.
    let db: DatabaseConnection = SqlxPostgresConnector::from_sqlx_postgres_pool(pool.clone());

    let tx = db.begin().await.unwrap();
    admit(&tx, 34).await.unwrap();
    let newer = sql::begin(&pool, &report(), token(35)).await;
    assert!(matches!(newer, Err(AdmitError::Retryable(_))), "{newer:?}");
    tx.commit().await.unwrap();

    let held = sql::begin(&pool, &report(), token(35)).await.unwrap();
    let tx = db.begin().await.unwrap();
    let error = admit(&tx, 36).await.unwrap_err();
    assert_eq!(sql::stale(&error, &report(), token(36)), None, "a lock says nothing of the token");
    assert!(is_retryable(&error), "{error:?}");
    tx.rollback().await.unwrap();
    held.commit().await.unwrap();

    let tx = db.begin().await.unwrap();
    let error = admit(&tx, 34).await.unwrap_err();
    assert_eq!(sql::stale(&error, &report(), token(34)), Some(refusal(34, 35)));
    assert!(!is_retryable(&error), "{error:?}");
    tx.rollback().await.unwrap();
    let tx = db.begin().await.unwrap();
    admit(&tx, 35).await.unwrap();
    tx.commit().await.unwrap();
}
