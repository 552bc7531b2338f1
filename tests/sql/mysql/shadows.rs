//! What a session brings along: temporary tables, tokens, and a character set.

use fencing::sql::{self, Protect};
use sqlx::Executor;
use support::mariadb::MariadbServer;

use super::place::pool;
use super::setup::{migrated, run, with};
use crate::common::token;

/// A token is used up by its statement, and not by the first row of that.
#[tokio::test]
async fn a_token_counts_for_every_row_of_one_statement() {
    let place = with("CREATE TABLE files (path VARCHAR(50), body TEXT)").await;
    Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    let insert = "INSERT INTO files VALUES ('a', ''), ('b', ''), ('c', '')";
    for write in [insert, "UPDATE files SET body = 'x', path = CONCAT(path, '1')"] {
        let mut tx = place.pool.begin().await.unwrap();
        sql::present(&mut tx, token(34)).await.unwrap();
        run(&mut *tx, write).await;
        tx.execute("UPDATE files SET body = 'y'").await.unwrap_err();
        tx.commit().await.unwrap();
    }
}

/// The name is compared in UTF-8, whatever the client speaks.
#[tokio::test]
async fn a_pair_in_another_character_set_counts() {
    let place =
        with("CREATE TABLE files (path VARCHAR(50) CHARACTER SET latin1 PRIMARY KEY, body TEXT)")
            .await;
    Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    for character_set in ["latin1", "utf8mb4", "utf16"] {
        let mut tx = place.pool.begin().await.unwrap();
        run(&mut *tx, &format!("SET @fencing_sequencer = CONVERT('34 ä' USING {character_set})"))
            .await;
        run(&mut *tx, "REPLACE INTO files VALUES ('ä', 'new')").await;
        tx.commit().await.unwrap();
    }
    // Which of two is the newer one nobody knows: neither counts, and neither stays.
    let mut tx = place.pool.begin().await.unwrap();
    run(&mut *tx, "SET @fencing_sequencer = '40 ä', @fencing_token = 34").await;
    for words in ["were both set", "no token presented"] {
        let error = tx.execute("UPDATE files SET body = 'bad'").await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    tx.rollback().await.unwrap();
    for bad in ["'34'", "'34 '", "'  '", "34", "x'ff'", "'34 a'", "REPEAT('1', 2000)"] {
        let mut tx = place.pool.begin().await.unwrap();
        run(&mut *tx, &format!("SET @fencing_sequencer = {bad}")).await;
        tx.execute("UPDATE files SET body = 'bad'").await.unwrap_err();
        run(&mut *tx, "SET @fencing_sequencer = NULL").await;
        tx.rollback().await.unwrap();
    }
}

fn protected_in_shadow() -> Protect {
    Protect::rows("files", "path").unwrap().shadow()
}

/// What a refusal would be said of, however long it is.
#[tokio::test]
async fn no_name_and_no_token_is_too_long_for_shadow_mode() {
    let place = with("CREATE TABLE files (path VARCHAR(2000), body TEXT)").await;
    protected_in_shadow().apply(&place.pool).await.unwrap();
    let mut tx = place.pool.begin().await.unwrap();
    for set in [
        "SET @fencing_token = NULL",
        "SET @fencing_token = 34",
        "SET @fencing_token = REPEAT('1', 2000)",
        "SET @fencing_token = NULL, @fencing_sequencer = CONCAT('34 ', REPEAT('ä', 2000))",
    ] {
        run(&mut *tx, set).await;
        run(&mut *tx, "INSERT INTO files VALUES (REPEAT('ä', 2000), '')").await;
    }
    run(&mut *tx, "SET @fencing_token = REPEAT('1', 2000), @fencing_sequencer = NULL").await;
    run(&mut *tx, "INSERT INTO files VALUES ('a', '')").await;
    run(&mut *tx, "CALL fencing_shadow(REPEAT('x', 5000), 34, 'admit', @refused)").await;
    tx.commit().await.unwrap();
    let refusals = sql::refusals(&place.pool).await.unwrap();
    assert!(refusals.iter().any(|own| own.place == "admit" && own.cause == "malformed"));
    let malformed = refusals.iter().find(|own| own.resource == "a").unwrap();
    assert_eq!(malformed.cause, "malformed", "{refusals:?}");
}

/// A table of 2000 rows grows no more, and who looks at it waits for nobody who writes there.
#[tokio::test]
async fn rows_that_are_held_make_no_table_without_end() {
    let place = migrated().await;
    let call = "CALL fencing_shadow('files/a', NULL, 'admit', @refused)";
    run(
        &place.pool,
        "INSERT INTO fencing_refusals (place, resource, cause, writer, message, first_at)
        SELECT 'x', CONCAT('r', seq), 'stale', '', '', NOW() FROM seq_1_to_1999",
    )
    .await;
    let mut holder = place.pool.begin().await.unwrap();
    holder.execute(call).await.unwrap();
    run(&place.pool, call).await;
    holder.commit().await.unwrap();
    for name in ["a", "b", "c"] {
        run(&place.pool, &format!("CALL fencing_shadow('{name}', NULL, 'x', @refused)")).await;
    }
    let rows = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM fencing_refusals");
    assert_eq!(rows.fetch_one(&place.pool).await.unwrap(), 2001);
}

#[tokio::test]
async fn a_binary_log_that_makes_shadow_mode_wait_is_told() {
    for (format, told) in [("MIXED", true), ("STATEMENT", true), ("ROW", false)] {
        let log = format!("binlog-format={format}");
        let server = MariadbServer::with(&["log-bin", &log]);
        let pool = pool(server.database().await);
        sql::migrate(&pool).await.unwrap();
        run(&pool, "CREATE TABLE files (path VARCHAR(50), body TEXT)").await;
        protected_in_shadow().apply(&pool).await.unwrap();
        let table = sql::protected(&pool, Some("files")).await.unwrap().remove(0);
        let is_told = table.faults.iter().any(|fault| fault.contains("binlog_format"));
        assert_eq!(is_told, told, "{format}: {table:?}");
        Protect::rows("files", "path").unwrap().apply(&pool).await.unwrap();
        assert!(sql::protected(&pool, Some("files")).await.unwrap()[0].is_whole(), "{format}");
    }
}
