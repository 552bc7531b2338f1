//! Clients in other languages: psql, mariadb, and Python's own sqlite3.

use fencing::sql::Protect;

use super::*;

/// A table that the database guards, with `a` written by token 34.
async fn protected(protect: Protect) -> Place {
    let place = ready().await;
    let create = "CREATE TABLE documents (path VARCHAR(255) PRIMARY KEY, body VARCHAR(255))";
    sqlx::query(create).execute(&place.pool).await.unwrap();
    protect.apply(&place.pool).await.unwrap();
    // Again: nothing is in its own way.
    protect.apply(&place.pool).await.unwrap();
    place.client(&place::insert(Some("34"), "a", "new")).unwrap();
    assert_eq!(bodies(&place).await, ["new"]);
    place
}

fn by_path() -> Protect {
    Protect::rows("documents", "path").unwrap().prefix("files/").unwrap()
}

async fn bodies(place: &Place) -> Vec<String> {
    let bodies = sqlx::query_scalar("SELECT body FROM documents ORDER BY path");
    bodies.fetch_all(&place.pool).await.unwrap()
}

#[tokio::test]
async fn any_language_calls_the_fence() {
    let place = ready().await;
    for number in ["33", "34", "34"] {
        place.client(&place::call("files/a", number)).unwrap();
    }
    assert_eq!(highest(&place, &resource()).await, Some(34));
    let error = place.client(&place::call("files/a", "33")).unwrap_err();
    assert!(
        error.contains("fencing: token 33 is stale, high water 34, resource files/a"),
        "{error}"
    );
    assert!(place::STATES.is_empty() || error.contains("ZF412"), "{error}");
    for bad in ["0", "-1", "1000000000000000", "NULL"] {
        let error = place.client(&place::call("files/a", bad)).unwrap_err();
        assert!(error.contains("fencing: "), "{bad}: {error}");
    }
    let long = "x".repeat(256);
    for bad in ["", long.as_str()] {
        let error = place.client(&place::call(bad, "34")).unwrap_err();
        assert!(error.contains("a resource name has 1 to 255 bytes"), "{bad}: {error}");
    }
    // The crate and the others see one mark.
    stale(admit(&place, &resource(), 33).await);
    admit(&place, &resource(), 35).await.unwrap();
    place.client(&place::call("files/a", "34")).unwrap_err();
    assert_eq!(highest(&place, &resource()).await, Some(35));
}

#[tokio::test]
async fn a_protected_table_refuses_whoever_has_no_token() {
    let place = protected(by_path()).await;
    for write in [
        place::update(None, "a", "bad"),
        place::delete(None, "a"),
        place::insert(None, "a2", "bad"),
        "UPDATE documents SET body = 'bad'".into(),
        "DELETE FROM documents".into(),
    ] {
        let error = place.client(&write).unwrap_err();
        assert!(error.contains("fencing: no token presented"), "{write}: {error}");
        assert!(error.contains("resource files/a"), "{write}: {error}");
        assert!(place::STATES.is_empty() || error.contains("ZF428"), "{write}: {error}");
    }
    let error = place.client(&place::update(None, "a", "bad")).unwrap_err();
    assert!(error.contains("high water 34, resource files/a"), "{error}");
    let error = place.client(&place::insert(None, "a2", "bad")).unwrap_err();
    assert!(error.contains("high water none, resource files/a2"), "{error}");
    assert_eq!(bodies(&place).await, ["new"]);
}

#[tokio::test]
async fn a_protected_table_refuses_whoever_is_stale() {
    let place = protected(by_path()).await;
    for write in [place::update(Some("33"), "a", "bad"), place::delete(Some("33"), "a")] {
        let error = place.client(&write).unwrap_err();
        let words = "fencing: token 33 is stale, high water 34, resource files/a";
        assert!(error.contains(words), "{write}: {error}");
        assert!(place::STATES.is_empty() || error.contains("ZF412"), "{write}: {error}");
    }
    for bad in ["0", "1000000000000000", "x", "1.5"] {
        let error = place.client(&place::update(Some(bad), "a", "bad")).unwrap_err();
        assert!(error.contains("fencing: ") || error.contains("no such column"), "{bad}: {error}");
    }
    assert_eq!(bodies(&place).await, ["new"]);
    // Others have marks of their own.
    place.client(&place::insert(Some("1"), "b", "b")).unwrap();
    place.client(&place::update(Some("34"), "a", "newer")).unwrap();
    place.client(&place::update(Some("35"), "a", "newest")).unwrap();
    assert_eq!(bodies(&place).await, ["newest", "b"]);
    assert_eq!(highest(&place, &resource()).await, Some(35));
    place.client(&place::delete(Some("36"), "a")).unwrap();
    assert_eq!(bodies(&place).await, ["b"]);
    // The mark outlives the row.
    place.client(&place::insert(Some("35"), "a", "bad")).unwrap_err();
    place.client(&place::insert(Some("36"), "a", "again")).unwrap();
}

#[tokio::test]
async fn a_row_that_changes_its_resource_needs_the_token_for_both() {
    let place = protected(by_path()).await;
    place.client(&place::insert(Some("40"), "b", "b")).unwrap();
    place.client(&place::delete(Some("40"), "b")).unwrap();
    place.client(&place::rename(Some("39"), "a", "b")).unwrap_err();
    place.client(&place::rename(Some("33"), "a", "c")).unwrap_err();
    place.client(&place::rename(Some("40"), "a", "b")).unwrap();
    assert_eq!(highest(&place, &resource()).await, Some(40));
}

#[tokio::test]
async fn a_table_may_be_one_resource() {
    let name = Resource::new("it's \"all\" `of` \\ ä").unwrap();
    let place = protected(Protect::whole("documents", name.clone()).unwrap()).await;
    assert_eq!(highest(&place, &name).await, Some(34));
    place.client(&place::insert(Some("33"), "b", "bad")).unwrap_err();
    place.client(&place::insert(Some("34"), "b", "good")).unwrap();
    assert_eq!(bodies(&place).await, ["new", "good"]);
}

#[tokio::test]
async fn the_refusals_of_triggers_are_the_crates_own() {
    let place = protected(by_path()).await;
    let write = async |number: u64, present: bool| {
        let mut tx = place.pool.begin().await.unwrap();
        if present {
            sql::present(&mut tx, token(number)).await?;
        }
        let update = place::guarded(present.then_some(number));
        sqlx::query(update).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    };
    assert_eq!(
        Err(stale(write(33, true).await)),
        fencing::fence::Stale::check(&resource(), token(33), Some(token(34)))
    );
    let error: AdmitError = match write(35, false).await {
        Err(error) => error,
        Ok(()) => panic!("written without a token"),
    };
    assert!(matches!(error, AdmitError::Unpresented(_)), "{error:?}");
    write(35, true).await.unwrap();
    assert_eq!(highest(&place, &resource()).await, Some(35));
    // What admits, and what the triggers check, are one.
    let mut tx = sql::begin(&place.pool, &resource(), token(36)).await.unwrap();
    sql::present(&mut tx, token(36)).await.unwrap();
    sqlx::query(place::guarded(Some(36))).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(bodies(&place).await, ["guarded"]);
}

/// A pool hands the session on to the next, who presents nothing.
#[tokio::test]
async fn a_presented_token_is_not_left_behind() {
    let place = protected(by_path()).await;
    let single = place.pool.options().clone().max_connections(1);
    let single = single.connect_lazy_with((*place.pool.connect_options()).clone());
    let write = async |number: Option<u64>| -> Result<(), AdmitError> {
        let mut tx = single.begin().await?;
        if let Some(number) = number {
            sql::present(&mut tx, token(number)).await?;
        }
        sqlx::query(place::guarded(number)).execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    };
    for _ in 0..2 {
        write(Some(34)).await.unwrap();
        let error = write(None).await.unwrap_err();
        assert!(matches!(error, AdmitError::Unpresented(_)), "{error:?}");
        stale(write(Some(33)).await);
        let error = write(None).await.unwrap_err();
        assert!(matches!(error, AdmitError::Unpresented(_)), "{error:?}");
    }
    // Presented for nothing.
    let mut tx = single.begin().await.unwrap();
    sql::present(&mut tx, token(34)).await.unwrap();
    tx.commit().await.unwrap();
    let other = Resource::new("other").unwrap();
    let mut tx = sql::begin(&single, &other, token(34)).await.unwrap();
    let error = sqlx::query(place::guarded(None)).execute(&mut *tx).await.unwrap_err();
    assert!(matches!(error.into(), AdmitError::Unpresented(_)));
}

#[tokio::test]
async fn names_are_quoted() {
    let place = ready().await;
    let table = "t\"'`; DROP TABLE files; --";
    let column = "c\"'`;%I$1?";
    let create = place::create(table, column);
    sqlx::raw_sql(sqlx::AssertSqlSafe(create)).execute(&place.pool).await.unwrap();
    let protect = Protect::rows(table, column).unwrap().prefix("p'\\\"`").unwrap();
    protect.apply(&place.pool).await.unwrap();
    protect.apply(&place.pool).await.unwrap();
    let error = place.client(&place::insert_into(table, "a")).unwrap_err();
    assert!(error.contains("no token presented, high water none, resource p'"), "{error}");
    assert_eq!(file(&place).await, (0, 0), "the table is still there");
    for bad in ["", "a\0b", "a\nb", "a."] {
        assert!(Protect::rows(bad, "c").is_err(), "{bad:?}");
    }
    assert!(Protect::rows("t", "").is_err());
    assert!(Protect::rows("nowhere", "c").unwrap().apply(&place.pool).await.is_err());
}
