//! What is MySQL's own: what an old snapshot sees, and sessions with other settings.

use fencing::Resource;
use fencing::sql::{self, AdmitError};

use super::place::{LEVELS, Place};
use super::server::waits::{at_33, waiting};
use super::setup::{attempt, migrated, number, raise, run, with};
use crate::common::{resource, retryable, stale, token, unpresented};

#[tokio::test]
async fn a_waiting_newer_token_is_not_overtaken_by_equal_ones() {
    let (place, impatient) = at_33().await;
    let one = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
    let new = waiting(&place, 34).await;
    // InnoDB's queue is fair: a share behind a raise that waits does wait.
    retryable(sql::begin(&impatient, &resource(), token(33)).await);
    one.commit().await.unwrap();
    new.await.unwrap().unwrap().commit().await.unwrap();
}

#[tokio::test]
async fn an_old_snapshot_never_lets_a_stale_token_in() {
    for isolated in ["SET innodb_snapshot_isolation = OFF", "SET innodb_snapshot_isolation = ON"] {
        for level in &LEVELS[..3] {
            let cases: [(u64, u64, u64); 5] =
                [(0, 34, 33), (0, 34, 35), (32, 34, 33), (33, 34, 33), (32, 33, 33)];
            for (before, after, presented) in cases {
                let place = migrated().await;
                if before > 0 {
                    raise(&place.pool, &resource(), before).await;
                }
                let mut tx = place.with(isolated).begin_with(*level).await.unwrap();
                number(&mut *tx, "SELECT COUNT(*) FROM fencing_marks").await;
                raise(&place.pool, &resource(), after).await;
                let case = format!("{isolated} {level}: {before} {after} {presented}");
                match sql::admit(&mut tx, &resource(), token(presented)).await {
                    Ok(()) => assert!(presented >= after, "{case}"),
                    Err(AdmitError::Stale(stale)) => {
                        assert!(presented < after && stale.highest == token(after), "{case}");
                    }
                    Err(AdmitError::Retryable(_)) => assert!(isolated.ends_with("ON"), "{case}"),
                    Err(error) => panic!("{case}: {error:?}"),
                }
            }
        }
    }
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
        match sql::begin(&place.pool, &resource(), token(33)).await.unwrap_err() {
            AdmitError::Retryable(_) => assert!(is_conflict, "{number}"),
            AdmitError::Database(_) => assert!(!is_conflict, "{number}"),
            error => panic!("{number}: {error:?}"),
        }
    }
}

#[tokio::test]
async fn the_character_set_of_the_connection_changes_no_name() {
    let place = migrated().await;
    let name = Resource::new("dätei/€").unwrap();
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
    let mut tx = sql::begin(&pool, &Resource::new("a").unwrap(), token(34)).await.unwrap();
    sql::present(&mut tx, token(34)).await.unwrap();
    run(&mut *tx, "INSERT INTO files VALUES ('a')").await;
    tx.commit().await.unwrap();
    unpresented(attempt(&pool, "DELETE FROM files").await);
    sql::migrate(&pool).await.unwrap();
    let found = sql::protected(&pool, None).await.unwrap();
    assert!(found[0].is_whole(), "{found:?}");
}

/// The short way of `begin` holds a row or a gap only as long as it takes to give it back. `FENCING_ROUNDS`
/// sets the rounds, from 30 on.
#[tokio::test]
async fn first_contacts_that_meet_are_no_deadlock() {
    let place = migrated().await;
    for round in 0..crate::rounds::rounds().max(30) {
        // New marks, and marks that rise, side by side in the index.
        let begins = (0..12_u64).map(|client| {
            let pool = place.pool.clone();
            tokio::spawn(async move {
                let name =
                    Resource::new(format!("files/{}", client % 3 + 3 * (round / 3))).unwrap();
                let begun = sql::begin(&pool, &name, token(12 * round + client / 3 + 1)).await;
                match begun {
                    Ok(tx) => tx.commit().await.map_err(AdmitError::from),
                    Err(AdmitError::Stale(_)) => Ok(()),
                    Err(error) => Err(error),
                }
            })
        });
        for begun in begins.collect::<Vec<_>>() {
            begun.await.unwrap().unwrap();
        }
    }
}
