use super::*;

const BAD: [i64; 5] = [0, -1, i64::MIN, 1_000_000_000_000_000, i64::MAX];

async fn insert(place: &Place, token: &str) -> Result<(), AdmitError> {
    let insert = "INSERT INTO fencing_marks (resource, token) VALUES ('files/a'";
    attempt(&place.pool, &format!("{insert}, {token})")).await
}

#[tokio::test]
async fn what_is_no_token_is_not_let_in() {
    let place = ready().await;
    for bad in BAD {
        insert(&place, &bad.to_string()).await.unwrap_err();
    }
}

/// In a table as somebody may leave it who means well.
#[tokio::test]
async fn a_mark_that_is_no_token_admits_nobody() {
    let columns = format!("resource VARCHAR(255) PRIMARY KEY, token BIGINT{}", place::MORE);
    let place = with(&format!("DROP TABLE fencing_marks; CREATE TABLE fencing_marks ({columns})")).await;
    let marks = SqlMarks::new(place.pool.clone());
    for bad in BAD.map(Some).into_iter().chain([None]) {
        run(&place.pool, "DELETE FROM fencing_marks").await;
        insert(&place, &bad.map_or("NULL".to_owned(), |bad| bad.to_string())).await.unwrap();
        for number in [1, 33, Token::MAX.get()] {
            let error = admit(&place, &resource(), number).await.unwrap_err();
            let AdmitError::Corrupt { resource: whose, .. } = &error else { panic!("{bad:?}: {error:?}") };
            assert_eq!(*whose, resource());
            let error = marks.raise(&resource(), token(number)).await.unwrap_err();
            assert!(matches!(error, FenceError::Refused(_)), "{bad:?}: {error:?}");
        }
        place.client(&place::call("files/a", "33")).unwrap_err();
        let error = sql::highest(&place.pool, &resource()).await.unwrap_err();
        assert!(matches!(error, AdmitError::Corrupt { .. }), "{bad:?}: {error:?}");
        let left = sqlx::query_scalar::<_, Option<i64>>("SELECT token FROM fencing_marks");
        assert_eq!(left.fetch_one(&place.pool).await.unwrap(), bad, "left as it was");
    }
}

#[tokio::test]
async fn a_token_and_a_resource_come_back_as_they_went() {
    let place = ready().await;
    let insert = sqlx::query(place::sql("INSERT INTO files VALUES ($1, $2, 0)"));
    let name = Resource::new("ä \"'`\\ 🔒").unwrap();
    insert.bind(name.clone()).bind(Token::MAX).execute(&place.pool).await.unwrap();
    let select = place::sql("SELECT path, token FROM files WHERE path = $1 AND token = $2");
    let select = sqlx::query_as::<_, (Resource, Token)>(select).bind(&name).bind(Some(Token::MAX));
    assert_eq!(select.fetch_one(&place.pool).await.unwrap(), (name, Token::MAX));
    let none = sqlx::query_scalar::<_, Option<Token>>("SELECT max(token) FROM files WHERE 1 = 0");
    assert_eq!(none.fetch_one(&place.pool).await.unwrap(), None);
}

#[tokio::test]
async fn a_column_that_holds_something_else_is_refused() {
    let place = ready().await;
    for bad in BAD {
        sqlx::query(place::sql("UPDATE files SET token = $1")).bind(bad).execute(&place.pool).await.unwrap();
        let select = sqlx::query_scalar::<_, Token>("SELECT token FROM files");
        let error = select.fetch_one(&place.pool).await.unwrap_err();
        assert!(matches!(error, sqlx::Error::ColumnDecode { .. }), "{error:?}");
        assert!(error.to_string().contains(&bad.to_string()), "{error}");
    }
    let long = "x".repeat(255) + " ";
    for bad in ["", " a", "a\tb", &long[1..]] {
        sqlx::query(place::sql("UPDATE files SET path = $1")).bind(bad).execute(&place.pool).await.unwrap();
        let select = sqlx::query_scalar::<_, Resource>("SELECT path FROM files");
        let error = select.fetch_one(&place.pool).await.unwrap_err();
        assert!(matches!(error, sqlx::Error::ColumnDecode { .. }), "{bad:?}: {error:?}");
    }
}
