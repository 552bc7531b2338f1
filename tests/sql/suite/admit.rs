use super::*;

#[tokio::test]
async fn equal_passes_and_lower_is_refused() {
    let place = ready().await;
    assert_eq!(highest(&place, &resource()).await, None);
    for number in [33, 33, 34, 34, 40, 40] {
        admit(&place, &resource(), number).await.unwrap();
        assert_eq!(highest(&place, &resource()).await, Some(number));
    }
    for number in [1, 33, 39] {
        let stale = stale(admit(&place, &resource(), number).await);
        assert_eq!((stale.presented, stale.highest), (token(number), token(40)));
        assert_eq!(stale.resource, resource());
        assert_eq!(highest(&place, &resource()).await, Some(40));
    }
    admit(&place, &resource(), 41).await.unwrap();
}

#[tokio::test]
async fn both_ends_of_the_range_are_tokens() {
    let place = ready().await;
    for number in [1, 1, 2, Token::MAX.get(), Token::MAX.get()] {
        admit(&place, &resource(), number).await.unwrap();
    }
    let stale = stale(admit(&place, &resource(), Token::MAX.get() - 1).await);
    assert_eq!(stale.highest, Token::MAX);
}

#[tokio::test]
async fn several_admissions_fit_in_one_transaction() {
    let place = ready().await;
    let other = Resource::new("files/b").unwrap();
    let mut tx = place.pool.begin().await.unwrap();
    for number in [33, 33, 34, 34] {
        sql::admit(&mut tx, &resource(), token(number)).await.unwrap();
        sql::admit(&mut tx, &other, token(7)).await.unwrap();
    }
    assert_eq!(stale(sql::admit(&mut tx, &resource(), token(33)).await).highest, token(34));
    tx.commit().await.unwrap();
    assert_eq!(highest(&place, &resource()).await, Some(34));
    assert_eq!(highest(&place, &other).await, Some(7));
}

#[tokio::test]
async fn a_rolled_back_transaction_leaves_no_mark() {
    let place = ready().await;
    let mut tx = place.pool.begin().await.unwrap();
    sql::admit(&mut tx, &resource(), token(34)).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(highest(&place, &resource()).await, None);
    admit(&place, &resource(), 33).await.unwrap();
    let mut tx = place.pool.begin().await.unwrap();
    sql::admit(&mut tx, &resource(), token(34)).await.unwrap();
    drop(tx);
    admit(&place, &resource(), 33).await.unwrap();
    assert_eq!(highest(&place, &resource()).await, Some(33));
}

#[tokio::test]
async fn a_savepoint_takes_its_mark_back() {
    let place = ready().await;
    admit(&place, &resource(), 32).await.unwrap();
    let mut tx = place.pool.begin().await.unwrap();
    sql::admit(&mut tx, &resource(), token(33)).await.unwrap();
    let mut inner = tx.begin().await.unwrap();
    sql::admit(&mut inner, &resource(), token(34)).await.unwrap();
    inner.rollback().await.unwrap();
    sql::admit(&mut tx, &resource(), token(33)).await.unwrap();
    let mut inner = tx.begin().await.unwrap();
    sql::admit(&mut inner, &resource(), token(35)).await.unwrap();
    inner.commit().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(highest(&place, &resource()).await, Some(35));
}

#[tokio::test]
async fn names_that_a_collation_would_merge_stay_apart() {
    let place = ready().await;
    let long = "x".repeat(Resource::MAX_BYTES);
    let names = ["R", "r", "a b", "a  b", "ab", "ä", "a\u{308}", "ß", "ss", "ı", "i", "I", "%"];
    let names = names.into_iter().chain([&*long, &long[1..], "a\u{200b}b", "'; --"]);
    let names = names.map(|name| Resource::new(name).unwrap()).collect::<Vec<_>>();
    for (name, number) in names.iter().zip((1..100).rev()) {
        admit(&place, name, number).await.unwrap();
    }
    for (name, number) in names.iter().zip((1..100).rev()) {
        assert_eq!(highest(&place, name).await, Some(number), "{name:?}");
    }
}
