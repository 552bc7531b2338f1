//! What a session brings along: temporary tables, tokens, and a character set.

use fencing::sql::{self, Protect};
use sqlx::Executor;

use super::setup::{run, with};
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
