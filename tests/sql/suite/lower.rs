//! A mark never falls, except by an operator's hand, and that is written down.

use super::*;

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
        let error = attempt(&place.pool, lower).await.unwrap_err().to_string();
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
    let other = named("it's other");
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
        let error = attempt(&place.pool, &format!("{by_hand} WHERE resource = 'files/a'")).await.unwrap_err();
        assert!(error.to_string().contains("never lowered"), "{error}");
    }
}

/// A mark that is not as named, or not above: the call is repeated after a lost answer, say, or by a second operator.
#[tokio::test]
async fn what_is_not_above_or_has_moved_is_not_lowered() {
    let place = guarded().await;
    let refused = async |name, from, to, high| {
        let lowered = sql::lower(&place.pool, &name, token(from), token(to)).await;
        let error = lowered.unwrap_err().to_string();
        let words = format!("nothing was lowered from {from} to {to}, high water {high}, resource {name}");
        assert!(error.contains(&words), "{error}");
    };
    refused(resource(), 35, 35, "35").await;
    refused(resource(), 35, 36, "35").await;
    refused(named("nobody"), 35, 1, "none").await;
    assert_eq!(number(&place.pool, "SELECT count(*) FROM fencing_audit").await, 0);
    assert_eq!(highest(&place, &resource()).await, Some(35));
    admit(&place, &resource(), Token::MAX.get()).await.unwrap();
    sql::lower(&place.pool, &resource(), Token::MAX, token(34)).await.unwrap();
    for number in [35, 36] {
        admit(&place, &resource(), number).await.unwrap();
    }
    refused(resource(), Token::MAX.get(), 34, "36").await;
    assert_eq!(stale(admit(&place, &resource(), 35).await).highest, token(36));
}

/// Acquires and releases a lease: the token that it had.
async fn next(place: &Place) -> Result<u64, fencing::lock::AcquireError> {
    let lease = lock(&place.pool).try_acquire(&resource()).await?;
    let token = lease.token().get();
    let _ = lease.release().await;
    Ok(token)
}

#[tokio::test]
async fn a_lock_whose_tokens_have_run_out_goes_on() {
    let place = guarded().await;
    let next = async || next(&place).await;
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
    let next = async || next(&place).await;
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
    let other = named("other");
    drop(lock(&place.pool).try_acquire(&other).await.unwrap());
    run(&place.pool, "UPDATE fencing_leases SET token = 999999999999999").await;
    sql::lower(&place.pool, &other, Token::MAX, token(7)).await.unwrap();
    assert_eq!(highest(&place, &other).await, None);
}
