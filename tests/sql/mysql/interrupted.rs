//! What the server interrupts: `max_statement_time` and KILL QUERY skip the handlers of a procedure.

use sqlx::MySqlPool;

use super::setup::*;

/// The pool's next user writes without a transaction, and that stays.
async fn writes_what_stays(place: &Place, pool: &MySqlPool) {
    run(pool, "INSERT INTO orders VALUES (1)").await;
    pool.close().await;
    let orders = "SELECT COUNT(*) FROM orders";
    assert_eq!(number(&place.pool, orders).await, 1, "an acknowledged write is lost");
    run(&place.pool, "DELETE FROM orders").await;
}

async fn with_orders() -> Place {
    with("CREATE TABLE orders (number BIGINT) ENGINE = InnoDB").await
}

#[tokio::test]
async fn a_begin_that_is_interrupted_leaves_no_transaction_open() {
    let place = with_orders().await;
    let _older = begin(&place.pool, 33).await.unwrap();
    let pool = single(&place.with("SET SESSION max_statement_time = 0.3"));
    let error = begin(&pool, 34).await.unwrap_err();
    assert!(error.to_string().contains("interrupted"), "{error}");
    writes_what_stays(&place, &pool).await;
}

/// So it is where the interruption comes between two statements of the procedure, a few times in a thousand.
#[tokio::test]
async fn a_begin_whose_handlers_were_skipped_leaves_no_transaction_open() {
    let place = with_orders().await;
    let skipped = "CREATE OR REPLACE PROCEDURE fencing_hold(
            IN the_resource VARBINARY(1024), IN the_token BIGINT, IN seen BIGINT)
        BEGIN
            SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = 1317, MESSAGE_TEXT = 'interrupted';
        END";
    run(&place.pool, skipped).await;
    let pool = single(&place.pool);
    let error = begin(&pool, 34).await.unwrap_err();
    assert!(error.to_string().contains("interrupted"), "{error}");
    writes_what_stays(&place, &pool).await;
}
