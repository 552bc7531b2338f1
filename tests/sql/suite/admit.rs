use super::writers::{WAYS, Way, Writer};
use super::*;

#[tokio::test]
async fn each_way_lets_equal_tokens_pass_and_refuses_lower_ones() {
    for way in WAYS.into_iter().chain(place::XA.then_some(Way::Xa)) {
        let place = ready_for(way).await;
        run(&place.pool, "CREATE TABLE notes (n INT)").await;
        assert_eq!(highest(&place, &resource()).await, None);
        let (writer, single) = (Writer::new(way), single(&place.pool));
        for number in [33, 33, 34, 34, 40, 40] {
            writer.write(&single, number).await.unwrap();
            assert_eq!(highest(&place, &resource()).await, Some(number));
            assert_eq!(file(&place).await, (number.cast_signed(), 0), "{way:?}");
        }
        for number in [1, 33, 39] {
            let stale = stale(writer.write(&single, number).await);
            assert_eq!((stale.presented, stale.highest), (token(number), token(40)), "{way:?}");
            assert_eq!(stale.resource, resource());
            assert_eq!(highest(&place, &resource()).await, Some(40));
        }
        // The one connection is not left in a transaction: what is written alone is written.
        run(&single, "INSERT INTO notes VALUES (1)").await;
        assert_eq!(number(&place.pool, "SELECT count(*) FROM notes").await, 1, "{way:?}");
        if way != Way::Xa {
            writer.open(&single, 41).await.unwrap().rollback().await.unwrap();
            assert_eq!(file(&place).await, (40, 0), "{way:?}");
        }
        writer.write(&single, 41).await.unwrap();
    }
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
async fn a_transaction_that_is_rolled_back_or_dropped_leaves_no_mark() {
    let place = ready().await;
    for rolled_back in [true, false] {
        let tx = admitted(&place.pool, 34).await;
        if rolled_back {
            tx.rollback().await.unwrap();
            assert_eq!(highest(&place, &resource()).await, None);
        } else {
            drop(tx);
        }
        admit(&place, &resource(), 33).await.unwrap();
    }
    assert_eq!(highest(&place, &resource()).await, Some(33));
}

#[tokio::test]
async fn a_savepoint_takes_its_mark_back() {
    let place = ready().await;
    admit(&place, &resource(), 32).await.unwrap();
    let mut tx = admitted(&place.pool, 33).await;
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

#[tokio::test]
async fn a_database_that_may_not_be_written_admits_nobody() {
    let place = ready().await;
    admit(&place, &resource(), 33).await.unwrap();
    let mut tx = place.read_only().begin().await.unwrap();
    let error = sql::admit(&mut tx, &resource(), token(34)).await.unwrap_err();
    assert!(matches!(error, AdmitError::Database(_)), "{error:?}");
}
