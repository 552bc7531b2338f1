//! What a session brings along: what an old snapshot shows, settings, tokens, a character set. What the server
//! interrupts: `max_statement_time` and KILL QUERY skip the handlers of a procedure.

use super::setup::*;
use super::suite::snapshots::no_snapshot_lets_a_stale_token_in;

#[tokio::test]
async fn an_old_snapshot_never_lets_a_stale_token_in() {
    let off = |place: &Place| place.with("SET innodb_snapshot_isolation = OFF");
    no_snapshot_lets_a_stale_token_in(off, false).await;
    let on = |place: &Place| place.with("SET innodb_snapshot_isolation = ON");
    no_snapshot_lets_a_stale_token_in(on, true).await;
}

#[tokio::test]
async fn the_character_set_of_the_connection_changes_no_name() {
    let place = migrated().await;
    let name = named("dätei/€");
    let latin = place.with("SET NAMES latin1");
    raise(&latin, &name, 34).await;
    assert_eq!(sql::highest(&place.pool, &name).await.unwrap(), Some(token(34)));
    assert_eq!(stale(sql::begin(&place.pool, &name, token(33)).await).resource, name);
    // The driver reads messages as UTF-8 and cannot read this one; refused it is.
    sql::begin(&latin, &name, token(33)).await.unwrap_err();
}

#[tokio::test]
async fn the_sql_mode_of_the_session_changes_nothing() {
    let place = Place::empty().await;
    let pool = place.with("SET sql_mode = ORACLE");
    sql::migrate(&pool).await.unwrap();
    run(&pool, "CREATE TABLE files (path VARCHAR(9))").await;
    sql::Protect::rows("files", "path").unwrap().apply(&pool).await.unwrap();
    let mut tx = sql::begin(&pool, &named("a"), token(34)).await.unwrap();
    sql::present(&mut tx, token(34)).await.unwrap();
    run(&mut *tx, "INSERT INTO files VALUES ('a')").await;
    tx.commit().await.unwrap();
    unpresented(attempt(&pool, "DELETE FROM files").await);
    sql::migrate(&pool).await.unwrap();
    assert!(found(&pool, "files").await.is_whole());
}

/// Also in a session whose clock stands still, where every statement looks like the one that was admitted.
#[tokio::test]
async fn what_an_earlier_statement_was_admitted_with_is_compared_again() {
    let place = protected("path VARCHAR(50) PRIMARY KEY").await;
    let mut session = place.pool.acquire().await.unwrap();
    for statement in [
        "SET timestamp = 1000000000",
        "SET @fencing_token = 33",
        "INSERT INTO files VALUES ('a', ''), ('b', '')",
        "UPDATE files SET body = '33' WHERE path = 'a'",
    ] {
        run(&mut *session, statement).await;
    }
    raise(&place.pool, &resource(), 34).await;
    stale(attempt(&mut *session, "UPDATE files SET body = 'stale' WHERE path = 'a'").await);
}

#[tokio::test]
async fn a_token_counts_for_every_row_of_one_statement() {
    let place = protected("path VARCHAR(50)").await;
    let insert = "INSERT INTO files VALUES ('a', ''), ('b', ''), ('c', '')";
    for write in [insert, "UPDATE files SET body = 'x', path = CONCAT(path, '1')"] {
        let mut tx = presenting(&place.pool, 34).await;
        run(&mut *tx, write).await;
        unpresented(attempt(&mut *tx, "UPDATE files SET body = 'y'").await);
        tx.commit().await.unwrap();
    }
}

/// The name is compared in UTF-8, whatever the client speaks.
#[tokio::test]
async fn a_pair_in_another_character_set_counts() {
    let table = "CREATE TABLE files (path VARCHAR(50) CHARACTER SET latin1 PRIMARY KEY, body TEXT)";
    let place = with(table).await;
    sql::Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    let mut session = place.pool.acquire().await.unwrap();
    for set in ["latin1", "utf8mb4", "utf16"] {
        let present = format!("SET @fencing_sequencer = CONVERT('34 ä' USING {set})");
        run(&mut *session, &format!("{present}; REPLACE INTO files VALUES ('ä', 'new')")).await;
    }
    // Which of two is the newer one nobody knows: neither counts, and neither stays.
    run(&mut *session, "SET @fencing_sequencer = '40 ä', @fencing_token = 34").await;
    for words in ["were both set", "no token presented"] {
        let error = session.execute("UPDATE files SET body = 'bad'").await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    for bad in ["'34'", "'34 '", "'  '", "34", "x'ff'", "'34 a'", "REPEAT('1', 2000)"] {
        run(&mut *session, &format!("SET @fencing_sequencer = {bad}")).await;
        attempt(&mut *session, "UPDATE files SET body = 'bad'").await.unwrap_err();
        run(&mut *session, "SET @fencing_sequencer = NULL").await;
    }
}

/// The pool's next user writes without a transaction, and that stays; also where the interruption comes between two
/// statements of the procedure, a few times in a thousand, and skips its handlers.
#[tokio::test]
async fn a_begin_that_is_interrupted_leaves_no_transaction_open() {
    let skipped = "CREATE OR REPLACE PROCEDURE fencing_hold(
            IN the_resource VARBINARY(1024), IN the_token BIGINT, IN seen BIGINT)
        BEGIN
            SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = 1317, MESSAGE_TEXT = 'interrupted';
        END";
    for (change, limit) in [("SELECT 1", "SET SESSION max_statement_time = 0.3"), (skipped, "SELECT 1")] {
        let place = with("CREATE TABLE orders (number BIGINT) ENGINE = InnoDB").await;
        run(&place.pool, change).await;
        // It is waited for, or is interrupted as well.
        let _older = begin(&place.pool, 33).await.ok();
        let pool = single(&place.with(limit));
        let error = begin(&pool, 34).await.unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{error}");
        // This statement is not to be interrupted.
        run(&pool, "SET SESSION max_statement_time = 60; INSERT INTO orders VALUES (1)").await;
        pool.close().await;
        let orders = "SELECT COUNT(*) FROM orders";
        assert_eq!(number(&place.pool, orders).await, 1, "{change}: an acknowledged write is lost");
    }
}
