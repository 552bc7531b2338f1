//! What is MySQL's own: what an old snapshot sees, and sessions with other settings.

use fencing::sql::{self, AdmitError};
use futures_util::future::join_all;

use super::place::Place;
use super::server::waits::{at_33, waiting};
use super::setup::{attempt, begin, by_path, found, migrated, raise, run, with};
use super::suite::snapshots::no_snapshot_lets_a_stale_token_in;
use crate::common::{named, resource, retryable, stale, token, unpresented};

#[tokio::test]
async fn a_waiting_newer_token_is_not_overtaken_by_equal_ones() {
    let (place, impatient) = at_33().await;
    let one = begin(&place.pool, 33).await.unwrap();
    let new = waiting(&place, 34).await;
    // InnoDB's queue is fair: a share behind a raise that waits does wait.
    retryable(begin(&impatient, 33).await);
    one.commit().await.unwrap();
    new.await.unwrap().unwrap().commit().await.unwrap();
}

#[tokio::test]
async fn an_old_snapshot_never_lets_a_stale_token_in() {
    no_snapshot_lets_a_stale_token_in(
        |place| place.with("SET innodb_snapshot_isolation = OFF"),
        false,
    )
    .await;
    no_snapshot_lets_a_stale_token_in(
        |place| place.with("SET innodb_snapshot_isolation = ON"),
        true,
    )
    .await;
}

#[tokio::test]
async fn a_conflict_is_retryable_and_another_error_is_not() {
    // 1205, 1213 and their like, raised by a trigger under their own numbers.
    for (number, is_conflict) in [(1205, true), (1213, true), (1020, true), (1062, false)] {
        let place = with(&format!(
            "CREATE TRIGGER trap BEFORE INSERT ON fencing_marks FOR EACH ROW
            SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'to order'"
        ))
        .await;
        match begin(&place.pool, 33).await.unwrap_err() {
            AdmitError::Retryable(_) => assert!(is_conflict, "{number}"),
            AdmitError::Database(_) => assert!(!is_conflict, "{number}"),
            error => panic!("{number}: {error:?}"),
        }
    }
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

/// The short way of `begin` holds a row or a gap only as long as it takes to give it back. `FENCING_ROUNDS`
/// sets the rounds, from 30 on.
#[tokio::test]
async fn first_contacts_that_meet_are_no_deadlock() {
    let place = migrated().await;
    for round in 0..crate::rounds::rounds().max(30) {
        // New marks, and marks that rise, side by side in the index.
        let begins = (0..12_u64).map(async |client| {
            let name = named(&format!("files/{}", client % 3 + 3 * (round / 3)));
            match sql::begin(&place.pool, &name, token(12 * round + client / 3 + 1)).await {
                Ok(tx) => tx.commit().await.unwrap(),
                Err(AdmitError::Stale(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
        });
        join_all(begins).await;
    }
}

/// Also in a session whose clock stands still, where every statement looks like the one that was admitted.
#[tokio::test]
async fn what_an_earlier_statement_was_admitted_with_is_compared_again() {
    let place = with("CREATE TABLE files (path VARCHAR(50) PRIMARY KEY, body TEXT)").await;
    by_path("files").apply(&place.pool).await.unwrap();
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
