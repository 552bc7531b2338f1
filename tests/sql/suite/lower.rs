//! A mark never falls, except by an operator's hand, and that is written down.

use fencing::lock::sql::SqlLock;
use fencing::sql::Protect;

use super::*;
use crate::common::documented;

/// A database whose marks are guarded; that of the resource is 35.
async fn guarded() -> Place {
    let place = ready().await;
    if place::GUARD {
        run(&place.pool, &documented("## A mark that is too high")).await;
    }
    for number in [34, 34, 35] {
        admit(&place, &resource(), number).await.unwrap();
    }
    place
}

#[tokio::test]
async fn a_mark_is_neither_lowered_nor_deleted() {
    let place = guarded().await;
    for raise in ["UPDATE fencing_marks SET token = 35", "UPDATE fencing_marks SET token = 36"] {
        run(&place.pool, raise).await;
    }
    for lower in place::LOWER {
        let error = sqlx::raw_sql(*lower).execute(&place.pool).await.unwrap_err().to_string();
        assert!(error.contains("fencing: a mark is never lowered"), "{lower}: {error}");
    }
    assert_eq!(highest(&place, &resource()).await, Some(36));
    stale(admit(&place, &resource(), 35).await);
    for number in [36, 36, 37] {
        admit(&place, &resource(), number).await.unwrap();
    }
}

#[tokio::test]
async fn an_operator_lowers_a_mark_and_leaves_a_line() {
    let place = guarded().await;
    Protect::whole("files", resource()).unwrap().apply(&place.pool).await.unwrap();
    let other = Resource::new("it's other").unwrap();
    for name in [&resource(), &other] {
        admit(&place, name, Token::MAX.get()).await.unwrap();
    }
    stale(admit(&place, &resource(), 36).await);
    sql::lower(&place.pool, &resource(), Token::MAX, token(35)).await.unwrap();
    assert_eq!(highest(&place, &resource()).await, Some(35));
    stale(admit(&place, &resource(), 34).await);
    admit(&place, &resource(), 36).await.unwrap();
    stale(admit(&place, &other, 36).await);
    sql::lower(&place.pool, &other, Token::MAX, token(1)).await.unwrap();
    let lines = sqlx::query_as::<_, (i64, i64)>(
        "SELECT from_token, to_token FROM fencing_audit WHERE lowered_at IS NOT NULL ORDER BY id",
    );
    let lines = lines.fetch_all(&place.pool).await.unwrap();
    assert_eq!(lines, [(i64::from(Token::MAX), 35), (i64::from(Token::MAX), 1)]);
    // What it has carried out it does not allow again.
    for by_hand in ["UPDATE fencing_marks SET token = 35", "UPDATE fencing_marks SET token = 1"] {
        let by_hand = format!("{by_hand} WHERE resource = 'files/a'");
        let by_hand = sqlx::query(sqlx::AssertSqlSafe(by_hand)).execute(&place.pool).await;
        assert!(by_hand.unwrap_err().to_string().contains("never lowered"));
    }
}

#[tokio::test]
async fn what_is_not_above_is_not_lowered() {
    let place = guarded().await;
    let nobody = Resource::new("nobody").unwrap();
    for (name, number) in [(resource(), 35), (resource(), 36), (nobody, 1)] {
        let error = sql::lower(&place.pool, &name, token(35), token(number)).await;
        let error = error.unwrap_err().to_string();
        let words = format!("fencing: nothing was lowered from 35 to {number}, high water ");
        assert!(error.contains(&words), "{error}");
        assert!(error.contains(&format!("resource {name}")), "{error}");
    }
    let lines = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM fencing_audit");
    assert_eq!(lines.fetch_one(&place.pool).await.unwrap(), 0);
    assert_eq!(highest(&place, &resource()).await, Some(35));
}

/// The answer was lost and the call comes again, or a second operator makes it.
#[tokio::test]
async fn a_mark_that_has_moved_is_not_lowered() {
    let place = guarded().await;
    admit(&place, &resource(), Token::MAX.get()).await.unwrap();
    sql::lower(&place.pool, &resource(), Token::MAX, token(34)).await.unwrap();
    for number in [35, 36] {
        admit(&place, &resource(), number).await.unwrap();
    }
    let error = sql::lower(&place.pool, &resource(), Token::MAX, token(34)).await.unwrap_err();
    let words = "nothing was lowered from 999999999999999 to 34, high water 36, resource files/a";
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(stale(admit(&place, &resource(), 35).await).highest, token(36));
}

/// Acquires and releases a lease: the token that it had.
async fn next(lock: &SqlLock<Db>) -> Result<u64, fencing::lock::AcquireError> {
    let lease = lock.try_acquire(&resource()).await?;
    let token = lease.token().get();
    let _ = lease.release().await;
    Ok(token)
}

#[tokio::test]
async fn a_lock_whose_tokens_have_run_out_goes_on() {
    let place = guarded().await;
    let lock = SqlLock::new(place.pool.clone());
    let next = async || next(&lock).await;
    assert_eq!(next().await.unwrap(), 36);
    // A mark that no token is above.
    admit(&place, &resource(), Token::MAX.get()).await.unwrap();
    next().await.unwrap_err();
    sql::lower(&place.pool, &resource(), Token::MAX, token(36)).await.unwrap();
    assert_eq!(next().await.unwrap(), 37);
    // The last token was granted: the lease has run out as well.
    admit(&place, &resource(), Token::MAX.get() - 1).await.unwrap();
    assert_eq!(next().await.unwrap(), Token::MAX.get());
    next().await.unwrap_err();
    sql::lower(&place.pool, &resource(), Token::MAX, token(40)).await.unwrap();
    assert_eq!(next().await.unwrap(), 41);
    admit(&place, &resource(), 41).await.unwrap();
}

/// The lease has run out, and the mark is somewhere below.
#[tokio::test]
async fn what_was_not_named_is_not_lowered_along_with_the_lease() {
    let place = guarded().await;
    let lock = SqlLock::new(place.pool.clone());
    let next = async || next(&lock).await;
    let run_out = async || {
        run(&place.pool, "UPDATE fencing_leases SET token = 999999999999999").await;
        next().await.unwrap_err();
    };
    assert_eq!(next().await.unwrap(), 36);
    run_out().await;
    let error = sql::lower(&place.pool, &resource(), token(36), token(34)).await.unwrap_err();
    let words = "from 36 to 34, high water 35, lease 999999999999999, resource files/a";
    assert!(error.to_string().contains(words), "{error}");
    // The lease is named, and the mark of 35 is not.
    sql::lower(&place.pool, &resource(), Token::MAX, token(30)).await.unwrap();
    assert_eq!(highest(&place, &resource()).await, Some(35));
    assert_eq!(next().await.unwrap(), 36);
    sql::lower(&place.pool, &resource(), Token::MAX, token(30)).await.unwrap_err();
    // The mark is named, and a lease that has run out goes along.
    run_out().await;
    sql::lower(&place.pool, &resource(), token(35), token(34)).await.unwrap();
    assert_eq!(highest(&place, &resource()).await, Some(34));
    assert_eq!(next().await.unwrap(), 35);
    // Nobody has a mark, and the lease alone has run out.
    let other = Resource::new("other").unwrap();
    drop(lock.try_acquire(&other).await.unwrap());
    run(&place.pool, "UPDATE fencing_leases SET token = 999999999999999 WHERE resource = 'other'")
        .await;
    sql::lower(&place.pool, &other, Token::MAX, token(7)).await.unwrap();
    assert_eq!(highest(&place, &other).await, None);
}
