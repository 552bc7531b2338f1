use fencing::fence::{FenceError, Marks};
use fencing::sql::SqlMarks;

use super::*;

#[tokio::test]
async fn a_missing_table_is_named() {
    let place = Place::empty().await;
    for error in [
        admit(&place, &resource(), 33).await.unwrap_err(),
        sql::highest(&place.pool, &resource()).await.unwrap_err(),
        sql::begin(&place.pool, &resource(), token(33)).await.unwrap_err(),
    ] {
        assert!(matches!(error, AdmitError::NotMigrated(_)), "{error:?}");
        assert!(error.to_string().contains("run fencing::sql::migrate"), "{error}");
    }
}

#[tokio::test]
async fn what_is_no_token_is_not_let_in() {
    let place = ready().await;
    for bad in [0, -1, i64::MIN, 1_000_000_000_000_000, i64::MAX] {
        let insert = sqlx::query(place::sql(
            "INSERT INTO fencing_marks (resource, token) VALUES ('files/a', $1)",
        ))
        .bind(bad);
        assert!(insert.execute(&place.pool).await.is_err(), "{bad}");
    }
}

/// The table as somebody may leave it who means well.
async fn altered(token: &str) -> Place {
    let place = ready().await;
    run(&place.pool, "DROP TABLE fencing_marks").await;
    run(
        &place.pool,
        &format!(
            "CREATE TABLE fencing_marks (resource VARCHAR(255) PRIMARY KEY, token {token}{})",
            place::MORE
        ),
    )
    .await;
    place
}

#[tokio::test]
async fn a_mark_that_is_no_token_admits_nobody() {
    let place = altered("BIGINT").await;
    let marks = SqlMarks::new(place.pool.clone());
    let bad = [Some(0), Some(-1), Some(i64::MIN), Some(1_000_000_000_000_000), Some(i64::MAX)];
    for bad in bad.into_iter().chain([None]) {
        run(&place.pool, "DELETE FROM fencing_marks").await;
        let insert = sqlx::query(place::sql(
            "INSERT INTO fencing_marks (resource, token) VALUES ('files/a', $1)",
        ))
        .bind(bad);
        insert.execute(&place.pool).await.unwrap();
        for number in [1, 33, Token::MAX.get()] {
            let error = admit(&place, &resource(), number).await.unwrap_err();
            let AdmitError::Corrupt { resource: whose, .. } = &error else {
                panic!("{bad:?}: {error:?}")
            };
            assert_eq!(*whose, resource());
            let error = marks.raise(&resource(), token(number)).await.unwrap_err();
            assert!(matches!(error, FenceError::Unreachable(_)), "{bad:?}: {error:?}");
        }
        let error = sql::highest(&place.pool, &resource()).await.unwrap_err();
        assert!(matches!(error, AdmitError::Corrupt { .. }), "{bad:?}: {error:?}");
        let left = sqlx::query_scalar::<_, Option<i64>>("SELECT token FROM fencing_marks");
        assert_eq!(left.fetch_one(&place.pool).await.unwrap(), bad, "left as it was");
    }
}

#[tokio::test]
async fn a_mark_of_another_type_admits_nobody() {
    let place = altered("TEXT").await;
    run(&place.pool, "INSERT INTO fencing_marks (resource, token) VALUES ('files/a', 'x')").await;
    let error = admit(&place, &resource(), 33).await.unwrap_err();
    let right = matches!(error, AdmitError::Corrupt { .. } | AdmitError::Database(_));
    assert!(right, "{error:?}");
}
