//! Who waits for whom on MySQL, and what an old snapshot sees.

use std::sync::Arc;
use std::time::Duration;

use fencing::Resource;
use fencing::sql::{self, AdmitError};
use sqlx::{AssertSqlSafe, MySqlPool};

use super::place::{LEVELS, Place};
use crate::common::{resource, retryable, stale, token};

async fn raise(pool: &MySqlPool, number: u64) {
    sql::begin(pool, &resource(), token(number)).await.unwrap().commit().await.unwrap();
}

/// A database whose mark is at 33, and a pool on which a wait fails.
async fn at_33() -> (Arc<Place>, MySqlPool) {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    raise(&place.pool, 33).await;
    let impatient = place.impatient();
    (Arc::new(place), impatient)
}

#[tokio::test]
async fn equal_tokens_run_side_by_side_and_a_newer_one_waits_for_all() {
    for &level in LEVELS {
        let (place, bounded) = at_33().await;
        let mut one = bounded.begin_with(level).await.unwrap();
        let mut two = bounded.begin_with(level).await.unwrap();
        sql::admit(&mut one, &resource(), token(33)).await.unwrap();
        sql::admit(&mut two, &resource(), token(33)).await.unwrap();
        retryable(sql::begin(&bounded, &resource(), token(34)).await);
        let new = tokio::spawn({
            let place = Arc::clone(&place);
            async move { sql::begin(&place.pool, &resource(), token(34)).await }
        });
        place.blocked().await;
        one.commit().await.unwrap();
        // The other one still holds it up.
        place.blocked().await;
        two.commit().await.unwrap();
        let new = new.await.unwrap().unwrap();
        stale(sql::begin(&bounded, &resource(), token(33)).await);
        new.commit().await.unwrap();
        stale(sql::begin(&bounded, &resource(), token(33)).await);
    }
}

#[tokio::test]
async fn a_waiting_newer_token_is_not_overtaken_by_equal_ones() {
    let (place, bounded) = at_33().await;
    let one = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
    let new = tokio::spawn({
        let place = Arc::clone(&place);
        async move { sql::begin(&place.pool, &resource(), token(34)).await }
    });
    place.blocked().await;
    // InnoDB's queue is fair: a share behind a raise that waits does wait.
    retryable(sql::begin(&bounded, &resource(), token(33)).await);
    one.commit().await.unwrap();
    new.await.unwrap().unwrap().commit().await.unwrap();
}

#[tokio::test]
async fn one_that_waited_for_a_newer_token_is_stale_if_that_commits() {
    for commits in [true, false] {
        let (place, _) = at_33().await;
        let mut new = place.pool.begin().await.unwrap();
        sql::admit(&mut new, &resource(), token(34)).await.unwrap();
        let old = tokio::spawn({
            let place = Arc::clone(&place);
            async move { sql::begin(&place.pool, &resource(), token(33)).await }
        });
        place.blocked().await;
        if commits {
            new.commit().await.unwrap();
            assert_eq!(stale(old.await.unwrap()).highest, token(34));
        } else {
            new.rollback().await.unwrap();
            old.await.unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn a_stale_client_that_lingers_holds_nobody_up() {
    let (_place, bounded) = at_33().await;
    for (&level, number) in LEVELS.iter().zip(34..) {
        let mut old = bounded.begin_with(level).await.unwrap();
        stale(sql::admit(&mut old, &resource(), token(32)).await);
        let new = sql::begin(&bounded, &resource(), token(number)).await;
        if level.contains("SERIALIZABLE") {
            // There every read locks.
            retryable(new);
        } else {
            new.unwrap().commit().await.unwrap();
        }
    }
}

#[tokio::test]
async fn other_resources_do_not_wait() {
    let (_place, bounded) = at_33().await;
    let _one = sql::begin(&bounded, &resource(), token(34)).await.unwrap();
    for name in ["files/b", "files/0", "FILES/A", "files/aa"] {
        sql::begin(&bounded, &Resource::new(name).unwrap(), token(1)).await.unwrap();
    }
}

#[tokio::test]
async fn two_that_raise_what_both_hold_are_a_deadlock_and_one_goes_on() {
    let (place, _) = at_33().await;
    let mut one = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
    let mut two = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
    let (name, newer) = (resource(), token(34));
    let (first, second) =
        tokio::join!(sql::admit(&mut one, &name, newer), sql::admit(&mut two, &name, newer));
    let (winner, loser) = if first.is_ok() { (one, second) } else { (two, first) };
    retryable(loser);
    winner.commit().await.unwrap();
    assert_eq!(sql::highest(&place.pool, &resource()).await.unwrap(), Some(token(34)));
}

#[tokio::test]
async fn an_old_snapshot_never_lets_a_stale_token_in() {
    for isolated in ["SET innodb_snapshot_isolation = OFF", "SET innodb_snapshot_isolation = ON"] {
        for level in &LEVELS[..3] {
            let cases: [(u64, u64, u64); 5] =
                [(0, 34, 33), (0, 34, 35), (32, 34, 33), (33, 34, 33), (32, 33, 33)];
            for (before, after, presented) in cases {
                let place = Place::empty().await;
                sql::migrate(&place.pool).await.unwrap();
                if before > 0 {
                    raise(&place.pool, before).await;
                }
                let mut tx = place.with(isolated).begin_with(*level).await.unwrap();
                let count = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM fencing_marks");
                count.fetch_one(&mut *tx).await.unwrap();
                raise(&place.pool, after).await;
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

/// The row of the mark does not tell that 33 wrote: only when the snapshot was taken does.
#[tokio::test]
async fn whoever_waited_reads_what_was_written_meanwhile() {
    for level in [
        "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ] {
        let (place, _) = at_33().await;
        for statement in
            ["CREATE TABLE files (body VARCHAR(10))", "INSERT INTO files VALUES ('old')"]
        {
            sqlx::query(statement).execute(&place.pool).await.unwrap();
        }
        let pool = place.with(level);
        let mut old = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
        let new = tokio::spawn(async move {
            let mut new = sql::begin(&pool, &resource(), token(34)).await.unwrap();
            let read = sqlx::query_scalar::<_, String>("SELECT body FROM files");
            read.fetch_one(&mut *new).await.unwrap()
        });
        place.blocked().await;
        sqlx::query("UPDATE files SET body = 'new'").execute(&mut *old).await.unwrap();
        old.commit().await.unwrap();
        assert_eq!(new.await.unwrap(), "new", "{level}");
    }
}

#[tokio::test]
async fn a_conflict_is_retryable_and_another_error_is_not() {
    // 1205, 1213 and their like, raised by a trigger under their own numbers.
    for (number, is_conflict) in [(1205, true), (1213, true), (1020, true), (1062, false)] {
        let place = Place::empty().await;
        sql::migrate(&place.pool).await.unwrap();
        let trap = format!(
            "CREATE TRIGGER trap BEFORE INSERT ON fencing_marks FOR EACH ROW
            SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'to order'"
        );
        sqlx::raw_sql(AssertSqlSafe(trap)).execute(&place.pool).await.unwrap();
        match sql::begin(&place.pool, &resource(), token(33)).await.unwrap_err() {
            AdmitError::Retryable(_) => assert!(is_conflict, "{number}"),
            AdmitError::Database(_) => assert!(!is_conflict, "{number}"),
            error => panic!("{number}: {error:?}"),
        }
    }
}

#[tokio::test]
async fn the_character_set_of_the_connection_changes_no_name() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    let name = Resource::new("dätei/€").unwrap();
    let latin = place.with("SET NAMES latin1");
    sql::begin(&latin, &name, token(34)).await.unwrap().commit().await.unwrap();
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
    sqlx::raw_sql("CREATE TABLE files (path VARCHAR(9))").execute(&pool).await.unwrap();
    sql::Protect::rows("files", "path").unwrap().apply(&pool).await.unwrap();
    let mut tx = sql::begin(&pool, &Resource::new("a").unwrap(), token(34)).await.unwrap();
    sql::present(&mut tx, token(34)).await.unwrap();
    sqlx::raw_sql("INSERT INTO files VALUES ('a')").execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    let refused = sqlx::raw_sql("DELETE FROM files").execute(&pool).await.unwrap_err();
    assert!(matches!(AdmitError::from(refused), AdmitError::Unpresented(_)));
    sql::migrate(&pool).await.unwrap();
    let found = sql::protected(&pool, None).await.unwrap();
    assert!(found[0].is_whole(), "{found:?}");
}

/// A day, unless the server says otherwise; and all who come later wait behind it.
#[tokio::test]
async fn a_migration_does_not_wait_for_ever_and_leaves_the_session_as_it_was() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    sqlx::query("DELETE FROM _fencing_migrations").execute(&place.pool).await.unwrap();
    let mut other = place.pool.begin().await.unwrap();
    let read = "SELECT resource FROM fencing_marks_base";
    sqlx::query(read).fetch_all(&mut *other).await.unwrap();
    let pool = place.patient();
    let migrate = tokio::time::timeout(Duration::from_secs(60), sql::migrate(&pool));
    let error = migrate.await.expect("it waits for ever").unwrap_err();
    assert!(matches!(error, sql::MigrateError::Locked(_)), "{error:?}");
    sqlx::query(read).fetch_all(&place.pool).await.unwrap();
    other.rollback().await.unwrap();
    sql::migrate(&pool).await.unwrap();
    sqlx::raw_sql("CREATE TABLE files (path VARCHAR(9))").execute(&pool).await.unwrap();
    sql::Protect::rows("files", "path").unwrap().apply(&pool).await.unwrap();
    let mut sessions = Vec::new();
    while sessions.is_empty() || sessions.len() < pool.size() as usize {
        let mut session = pool.acquire().await.unwrap();
        let shown = sqlx::query_scalar::<_, i64>("SELECT CAST(@@lock_wait_timeout AS SIGNED)");
        assert_eq!(shown.fetch_one(&mut *session).await.unwrap(), 86400);
        sessions.push(session);
    }
}

/// The short way of `begin` holds a row or a gap only as long as it takes to give it back. `FENCING_ROUNDS`
/// sets the rounds, from 30 on.
#[tokio::test]
async fn first_contacts_that_meet_are_no_deadlock() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
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
