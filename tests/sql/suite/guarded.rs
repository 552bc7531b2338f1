//! The admission folded into the first write.

use std::sync::Arc;

use sqlx::Pool;
use tokio::sync::Notify;

use super::*;
use place::DEFAULTS;

/// What a client writes, as `write` does.
const UPDATE: &str = place::GUARDED;

fn guarded(number: u64) -> sql::Guarded<Db> {
    let number = number.cast_signed();
    sql::guarded(UPDATE, "path = 'files/a'").bind(number).bind(number)
}

async fn begin(
    pool: &Pool<Db>,
    number: u64,
) -> Result<(Transaction<'static, Db>, u64), AdmitError> {
    guarded(number).begin(pool, &resource(), token(number)).await
}

/// Writes and commits.
async fn run(write: sql::Guarded<Db>, pool: &Pool<Db>, number: u64) -> Result<u64, AdmitError> {
    let (tx, rows) = write.begin(pool, &resource(), token(number)).await?;
    tx.commit().await?;
    Ok(rows)
}

async fn execute(pool: &Pool<Db>, number: u64) -> Result<u64, AdmitError> {
    run(guarded(number), pool, number).await
}

#[tokio::test]
async fn a_write_carries_its_own_admission() {
    let place = ready().await;
    for number in [33, 33, 34, 34, 36] {
        let (tx, rows) = begin(&place.pool, number).await.unwrap();
        assert_eq!(rows, 1);
        tx.commit().await.unwrap();
        assert_eq!(highest(&place, &resource()).await, Some(number));
        assert_eq!(execute(&place.pool, number).await.unwrap(), 1);
        assert_eq!(file(&place).await, (number.cast_signed(), 0));
    }
    for number in [33, 34, 35] {
        let refused = stale(begin(&place.pool, number).await);
        assert_eq!((refused.presented, refused.highest), (token(number), token(36)));
        assert_eq!(stale(execute(&place.pool, number).await).highest, token(36));
    }
    execute(&place.pool, 37).await.unwrap();
    assert_eq!(file(&place).await, (37, 0));
    assert_eq!(highest(&place, &resource()).await, Some(37));
    let (tx, _) = begin(&place.pool, 38).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(file(&place).await, (37, 0));
}

#[tokio::test]
async fn no_condition_reaches_around_the_guard() {
    let place = ready().await;
    admit(&place, &resource(), 34).await.unwrap();
    for condition in
        ["path = 'x' OR path = 'files/a'", "1 = 1", "path = 'files/a' -- one", "NOT 1 = 2"]
    {
        let write = sql::guarded::<Db>(UPDATE, condition).bind(33_i64).bind(33_i64);
        stale(write.begin(&place.pool, &resource(), token(33)).await);
        assert_eq!(file(&place).await, (0, 0), "{condition}");
        let write = sql::guarded::<Db>(UPDATE, condition).bind(0_i64).bind(0_i64);
        assert_eq!(run(write, &place.pool, 34).await.unwrap(), 1);
    }
}

/// A condition at the end of these does not keep all that they write from being written.
#[tokio::test]
async fn what_the_guard_does_not_cover_is_refused() {
    let place = ready().await;
    for statement in [
        "INSERT INTO files SELECT 'files/b', COALESCE(MAX(token), 0), 0 FROM files",
        "INSERT INTO files SELECT 'files/b', 1, 0 UNION ALL SELECT 'files/c', 1, 0",
        "WITH gone AS (DELETE FROM files RETURNING 1) UPDATE files SET late = 0",
        "REPLACE INTO files SELECT 'files/b', 1, 0",
        "DELETE FROM files; UPDATE files SET late = 0",
        "",
    ] {
        let write = sql::guarded::<Db>(statement, "1 = 1");
        let error = write.begin(&place.pool, &resource(), token(33)).await.unwrap_err();
        let rule = matches!(&error, AdmitError::Database(sqlx::Error::Configuration(_)));
        assert!(rule, "{statement}: {error:?}");
        assert_eq!(file(&place).await, (0, 0), "{statement}");
    }
    assert_eq!(highest(&place, &resource()).await, None);
}

/// The guard has values of its own: the statement must not take one of them for a value that was forgotten.
#[tokio::test]
async fn a_value_that_was_forgotten_is_an_error() {
    let place = ready().await;
    // The mark is the token from the second time on.
    for time in 1..=2 {
        let write = sql::guarded::<Db>(UPDATE, "path = 'files/a'").bind(33_i64);
        let error = begin_with(write, &place.pool, 33).await.unwrap_err();
        assert!(matches!(error, AdmitError::Database(_)), "{time}: {error}");
        assert_eq!(execute(&place.pool, 33).await.unwrap(), 1);
        assert_eq!(file(&place).await, (33, 0));
    }
}

async fn begin_with(
    write: sql::Guarded<Db>,
    pool: &Pool<Db>,
    number: u64,
) -> Result<(Transaction<'static, Db>, u64), AdmitError> {
    write.begin(pool, &resource(), token(number)).await
}

#[tokio::test]
async fn a_write_that_meets_no_row_is_admitted_all_the_same() {
    let place = ready().await;
    for number in [33, 33, 34] {
        let nowhere = sql::guarded::<Db>("DELETE FROM files", "path = 'nowhere'");
        let (tx, rows) = nowhere.begin(&place.pool, &resource(), token(number)).await.unwrap();
        assert_eq!(rows, 0);
        retryable(sql::begin(&place.impatient(), &resource(), token(number + 1)).await);
        tx.commit().await.unwrap();
        assert_eq!(highest(&place, &resource()).await, Some(number));
    }
}

#[tokio::test]
async fn what_the_write_says_is_passed_on() {
    let place = ready().await;
    for number in [33, 33] {
        let broken = sql::guarded::<Db>("UPDATE files SET nowhere = 1", "path = 'files/a'");
        let error = broken.begin(&place.pool, &resource(), token(number)).await.unwrap_err();
        assert!(matches!(error, AdmitError::Database(_)), "{error:?}");
        // Nobody holds anything.
        admit(&place, &resource(), number).await.unwrap();
    }
}

#[tokio::test]
async fn a_newer_token_waits_for_one_that_is_paused_after_its_folded_check() {
    for level in DEFAULTS {
        // At its first contact, and with a mark that it has found equal.
        for before in [32, 33] {
            let place = Arc::new(ready().await);
            admit(&place, &resource(), before).await.unwrap();
            let pool = place.at(level);
            let (old, _) = begin(&pool, 33).await.unwrap();
            let refused = Arc::new(Notify::new());
            let mut new = tokio::spawn({
                let (pool, refused) = (pool.clone(), Arc::clone(&refused));
                async move {
                    loop {
                        // No row at all: only the mark is in its way.
                        let other = sql::guarded::<Db>("DELETE FROM files", "path = 'nowhere'");
                        match run(other, &pool, 34).await {
                            Err(AdmitError::Retryable(_)) => refused.notify_one(),
                            done => break done,
                        }
                        pause().await;
                    }
                }
            });
            tokio::select! {
                () = place.blocked() => {}
                () = refused.notified() => {}
                _ = &mut new => panic!("{level}, mark {before}: 34 did not wait"),
            }
            old.commit().await.unwrap();
            assert_eq!(new.await.unwrap().unwrap(), 0);
            stale(execute(&pool, 33).await);
            assert_eq!(highest(&place, &resource()).await, Some(34), "{level}, mark {before}");
        }
    }
}
