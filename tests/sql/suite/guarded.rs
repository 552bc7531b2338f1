//! The admission folded into the first write.

use super::writers::guarded_write;
use super::*;

/// Writes and commits.
async fn run(write: sql::Guarded<Db>, pool: &Pool<Db>, number: u64) -> Result<u64, AdmitError> {
    let (tx, rows) = write.begin(pool, &resource(), token(number)).await?;
    tx.commit().await?;
    Ok(rows)
}

#[tokio::test]
async fn no_condition_reaches_around_the_guard() {
    let place = ready().await;
    admit(&place, &resource(), 34).await.unwrap();
    for condition in ["path = 'x' OR path = 'files/a'", "1 = 1", "path = 'files/a' -- one", "NOT 1 = 2"] {
        let write = sql::guarded::<Db>(place::GUARDED, condition).bind(33_i64).bind(33_i64);
        stale(write.begin(&place.pool, &resource(), token(33)).await);
        assert_eq!(file(&place).await, (0, 0), "{condition}");
        let write = sql::guarded::<Db>(place::GUARDED, condition).bind(0_i64).bind(0_i64);
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
async fn a_value_too_few_or_too_many_is_an_error() {
    let place = ready().await;
    // The mark is the token from the second time on.
    for time in 1..=2 {
        let write = sql::guarded::<Db>(place::GUARDED, "path = 'files/a'").bind(33_i64);
        let error = run(write, &place.pool, 33).await.unwrap_err();
        assert!(matches!(error, AdmitError::Database(_)), "{time}: {error}");
        let error = run(guarded_write(34).bind(34_i64), &place.pool, 34).await.unwrap_err();
        assert!(matches!(error, AdmitError::Database(_)), "{time}: {error}");
        assert_eq!(run(guarded_write(33), &place.pool, 33).await.unwrap(), 1);
        assert_eq!(file(&place).await, (33, 0));
    }
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
