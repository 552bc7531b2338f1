//! What the server interrupts: `max_statement_time` and KILL QUERY skip the handlers of a
//! procedure.

use fencing::sql;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{AssertSqlSafe, Executor, MySqlPool};

use super::place::Place;
use super::setup::{run, with};
use crate::common::{resource, token};

/// A pool of one connection, whose statements end after this time.
fn single(place: &Place, limit: &'static str) -> MySqlPool {
    let options = MySqlPoolOptions::new()
        .max_connections(1)
        .after_connect(move |conn, _| Box::pin(async move { conn.execute(limit).await.map(drop) }));
    options.connect_lazy_with((*place.pool.connect_options()).clone())
}

/// Interrupts the statement that waits.
async fn kill_query(place: &Place) {
    place.blocked().await;
    let waiting = "SELECT id FROM information_schema.processlist
        WHERE db = DATABASE() AND command IN ('Query', 'Execute') AND id <> CONNECTION_ID()";
    for id in sqlx::query_scalar::<_, i64>(waiting).fetch_all(&place.pool).await.unwrap() {
        // It may have ended meanwhile.
        let _ = place.pool.execute(AssertSqlSafe(format!("KILL QUERY {id}"))).await;
    }
}

/// The pool's next user writes without a transaction, and that stays.
async fn writes_what_stays(place: &Place, pool: &MySqlPool, number: i64) {
    let insert = sqlx::query("INSERT INTO orders VALUES (?)").bind(number);
    insert.execute(pool).await.unwrap();
    pool.close().await;
    let seen = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM orders WHERE number = ?");
    let seen = seen.bind(number).fetch_one(&place.pool).await.unwrap();
    assert_eq!(seen, 1, "an acknowledged write is lost");
}

async fn with_orders() -> Place {
    with("CREATE TABLE orders (number BIGINT) ENGINE = InnoDB").await
}

#[tokio::test]
async fn a_begin_that_is_interrupted_leaves_no_transaction_open() {
    let place = with_orders().await;
    let _older = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
    for (number, limit) in
        [(1, "SET SESSION max_statement_time = 0.3"), (2, "SET SESSION max_statement_time = 0")]
    {
        let pool = single(&place, limit);
        let begin = tokio::spawn({
            let pool = pool.clone();
            async move { sql::begin(&pool, &resource(), token(34)).await.map(drop) }
        });
        if number == 2 {
            kill_query(&place).await;
        }
        let error = begin.await.unwrap().unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{number}: {error}");
        writes_what_stays(&place, &pool, number).await;
    }
}

/// So it is where the interruption comes between two statements of the procedure, a few times
/// in a thousand.
#[tokio::test]
async fn a_begin_whose_handlers_were_skipped_leaves_no_transaction_open() {
    let place = with_orders().await;
    for skipped in [
        "DROP PROCEDURE fencing_hold",
        "CREATE PROCEDURE fencing_hold(
            IN the_resource VARBINARY(1024), IN the_token BIGINT, IN seen BIGINT)
        BEGIN
            SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = 1317, MESSAGE_TEXT = 'interrupted';
        END",
    ] {
        run(&place.pool, skipped).await;
    }
    let pool = single(&place, "SET SESSION max_statement_time = 0");
    let error = sql::begin(&pool, &resource(), token(34)).await.unwrap_err();
    assert!(error.to_string().contains("interrupted"), "{error}");
    writes_what_stays(&place, &pool, 3).await;
}
