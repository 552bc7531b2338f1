use std::time::Duration;

use fencing::sql::{Protect, ProtectError};

use super::*;

async fn documents() -> Place {
    let place = ready().await;
    run(&place.pool, "CREATE TABLE documents (path VARCHAR(255) PRIMARY KEY, body VARCHAR(255))")
        .await;
    place
}

#[tokio::test]
async fn a_column_that_is_missing_is_named_and_nothing_is_changed() {
    let place = documents().await;
    let protect = Protect::rows("documents", "nope").unwrap();
    let error = protect.apply(&place.pool).await.unwrap_err();
    assert!(matches!(error, ProtectError::Column { .. }), "{error:?}");
    assert!(error.to_string().contains("documents has no column nope"), "{error}");
    run(&place.pool, "INSERT INTO documents VALUES ('a', 'new')").await;
    // A protection outlives another one that fails.
    Protect::rows("documents", "path").unwrap().apply(&place.pool).await.unwrap();
    protect.apply(&place.pool).await.unwrap_err();
    unpresented(attempt(&place.pool, &place::insert(None, "b", "bad")).await);
}

#[tokio::test]
async fn a_table_that_is_missing_is_named() {
    let place = ready().await;
    let (by_column, whole) = (Protect::rows("nope", "path"), Protect::whole("nope", resource()));
    for protect in [by_column.unwrap(), whole.unwrap()] {
        let error = protect.apply(&place.pool).await.unwrap_err();
        assert!(matches!(error, ProtectError::Table { .. }), "{error:?}");
        assert!(error.to_string().contains("the table nope does not exist"), "{error}");
    }
}

#[tokio::test]
async fn a_database_without_the_fence_says_what_to_run() {
    let place = Place::empty().await;
    let protect = Protect::rows("documents", "path").unwrap();
    let error = protect.apply(&place.pool).await.unwrap_err();
    assert!(matches!(error, ProtectError::Database(AdmitError::NotMigrated(_))), "{error:?}");
    assert!(error.to_string().contains("run fencing::sql::migrate"), "{error}");
}

#[tokio::test]
async fn several_columns_name_a_row_and_no_two_rows_have_one_name() {
    let place = documents().await;
    let protect = Protect::rows_by("documents", &["path", "body"]).unwrap();
    protect.prefix("p/").unwrap().apply(&place.pool).await.unwrap();
    for (path, body, resource) in [
        ("a/b", "c", "p/a%2Fb/c"),
        ("a", "b/c", "p/a/b%2Fc"),
        ("%2F", "", "p/%252F/"),
        ("", "/", "p//%2F"),
        ("ä", "B", "p/ä/B"),
    ] {
        let error = place.client(&place::insert(None, path, body)).unwrap_err();
        let words = format!("no token presented, high water none, resource {resource}");
        assert!(error.contains(&words), "{error}");
    }
    place.client(&place::insert(Some("34"), "a/b", "c")).unwrap();
    let error = place.client(&place::update(Some("33"), "a/b", "d")).unwrap_err();
    assert!(error.contains("is stale, high water 34, resource p/a%2Fb/c"), "{error}");
    place.client(&place::insert(Some("1"), "a", "b/c")).unwrap();
    // Both names of a row that changes its name.
    place.client(&place::insert(Some("40"), "x", "b/c")).unwrap();
    place.client(&place::delete(Some("40"), "x")).unwrap();
    let error = place.client(&place::rename(Some("1"), "a", "x")).unwrap_err();
    assert!(error.contains("is stale, high water 40, resource p/x/b%2Fc"), "{error}");
    place.client(&place::update(Some("35"), "a/b", "d")).unwrap();
    place.client(&place::update(Some("34"), "a/b", "c")).unwrap_err();
    assert!(Protect::rows_by("documents", &[]).is_err());
    let error = Protect::rows_by("documents", &["path", "nope"]).unwrap();
    let error = error.apply(&place.pool).await.unwrap_err();
    assert!(error.to_string().contains("has no column nope"), "{error}");
}

#[tokio::test]
async fn the_catalogue_says_which_tables_are_protected_and_how() {
    let place = documents().await;
    assert_eq!(sql::protected(&place.pool, None).await.unwrap(), []);
    for (protect, resource) in [
        (Protect::rows("documents", "path").unwrap(), "{path}"),
        (
            Protect::rows("documents", "path").unwrap().prefix("it's/\\`\"/").unwrap(),
            "it's/\\`\"/{path}",
        ),
        (Protect::rows_by("documents", &["path", "body"]).unwrap(), "{path}/{body}"),
        (
            Protect::whole("documents", Resource::new("it's \\ NEW.`x`").unwrap()).unwrap(),
            "it's \\ NEW.`x`",
        ),
    ] {
        for protected in sql::protected(&place.pool, None).await.unwrap() {
            protected.remove(&place.pool).await.unwrap();
        }
        protect.apply(&place.pool).await.unwrap();
        protect.apply(&place.pool).await.unwrap();
        for name in [None, Some("documents")] {
            let found = sql::protected(&place.pool, name).await.unwrap();
            let [found] = &found[..] else { panic!("{found:?}") };
            assert!(found.is_whole() && found.is_protected(), "{found:?}");
            assert_eq!((found.table.as_str(), found.resource.as_str()), ("documents", resource));
        }
    }
    run(&place.pool, "CREATE TABLE other (path VARCHAR(9))").await;
    let other = sql::protected(&place.pool, Some("other")).await.unwrap();
    assert!(!other[0].is_whole() && !other[0].is_protected(), "{other:?}");
    assert!(other[0].faults[0].starts_with("it is not protected"), "{other:?}");
    let error = sql::protected(&place.pool, Some("nope")).await.unwrap_err();
    assert!(error.to_string().contains("the table nope does not exist"), "{error}");
}

/// Somebody protects the table again and forgets the prefix. The marks of `docs/a` would not count for `a`.
#[tokio::test]
async fn a_protected_table_does_not_get_other_names() {
    let place = documents().await;
    let protect = || Protect::rows("documents", "path").unwrap();
    protect().prefix("docs/").unwrap().apply(&place.pool).await.unwrap();
    place.client(&place::insert(Some("40"), "a", "new")).unwrap();
    let error = protect().apply(&place.pool).await.unwrap_err();
    assert!(
        matches!(&error, ProtectError::Unguardable { why, .. }
            if why.contains("are named docs/{path}: as {path} they")),
        "{error}"
    );
    place.client(&place::update(Some("39"), "a", "stale")).unwrap_err();
    place.client(&place::update(Some("40"), "a", "newer")).unwrap();
    let found = sql::protected(&place.pool, Some("documents")).await.unwrap();
    found[0].remove(&place.pool).await.unwrap();
    protect().apply(&place.pool).await.unwrap();
}

#[tokio::test]
async fn the_triggers_can_be_taken_off() {
    let place = documents().await;
    let protect = Protect::rows("documents", "path").unwrap();
    protect.apply(&place.pool).await.unwrap();
    place.client(&place::insert(None, "a", "bad")).unwrap_err();
    let found = sql::protected(&place.pool, Some("documents")).await.unwrap();
    found[0].remove(&place.pool).await.unwrap();
    place.client(&place::insert(None, "a", "free")).unwrap();
    let found = sql::protected(&place.pool, Some("documents")).await.unwrap();
    assert!(!found[0].is_protected() && !found[0].is_whole(), "{found:?}");
    protect.apply(&place.pool).await.unwrap();
    place.client(&place::update(None, "a", "bad")).unwrap_err();
}

#[tokio::test]
async fn rows_that_nobody_could_change_are_found_first() {
    let place = ready().await;
    run(
        &place.pool,
        "CREATE TABLE drafts (id INT PRIMARY KEY, path VARCHAR(300), kind VARCHAR(9))",
    )
    .await;
    let long = "x".repeat(250);
    let rows =
        format!("INSERT INTO drafts VALUES (1, NULL, 'a'), (2, '{long}', 'a'), (3, 'a', 'a')");
    run(&place.pool, &rows).await;
    for protect in [Protect::rows("drafts", "path"), Protect::rows_by("drafts", &["path", "kind"])]
    {
        let protect = protect.unwrap().prefix("it's\\/").unwrap();
        let error = protect.apply(&place.pool).await.unwrap_err().to_string();
        assert!(error.contains("2 of its rows: 1 without a name"), "{error}");
        let (_, select) = error.split_once("delete them: ").unwrap();
        let found = sqlx::raw_sql(sqlx::AssertSqlSafe(select.to_owned()));
        assert_eq!(found.fetch_all(&place.pool).await.unwrap().len(), 2);
    }
    run(&place.pool, "DELETE FROM drafts WHERE id < 3").await;
    Protect::rows("drafts", "path").unwrap().apply(&place.pool).await.unwrap();
}

/// Who waits for a table keeps everybody out who comes later.
#[tokio::test]
async fn a_table_that_others_use_is_given_up_and_they_go_on() {
    let place = documents().await;
    let protect = Protect::rows("documents", "path").unwrap();
    for protects in [true, false] {
        let holder = sqlx::query("INSERT INTO documents VALUES ('a', 'mine')");
        let mut tx = place.pool.begin().await.unwrap();
        if protects {
            holder.execute(&mut *tx).await.unwrap();
        } else {
            let delete = sqlx::query("UPDATE files SET late = 0");
            delete.execute(&mut *tx).await.unwrap();
            sqlx::query("SELECT path FROM documents").fetch_all(&mut *tx).await.unwrap();
        }
        let pool = place.patient();
        let change = async {
            match protects {
                true => protect.apply(&pool).await,
                false => sql::protected(&place.pool, None).await.unwrap()[0].remove(&pool).await,
            }
        };
        let change = tokio::time::timeout(Duration::from_secs(60), change);
        let error = change.await.expect("it waits for ever").unwrap_err();
        assert!(matches!(error, ProtectError::Locked(_)), "{error:?}");
        assert!(error.to_string().contains("try again"), "{error}");
        let others = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM documents");
        others.fetch_one(&place.pool).await.unwrap();
        tx.rollback().await.unwrap();
        protect.apply(&pool).await.unwrap();
        assert!(sql::protected(&place.pool, None).await.unwrap()[0].is_whole());
    }
}

#[tokio::test]
async fn a_column_whose_text_depends_on_the_session_names_no_resource() {
    let place = ready().await;
    run(&place.pool, place::TYPES).await;
    for (number, (kind, steady)) in place::KINDS.iter().enumerate() {
        run(&place.pool, &format!("CREATE TABLE slots_{number} (at {kind} NULL, body TEXT)")).await;
        let protect = Protect::rows(&format!("slots_{number}"), "at").unwrap();
        match protect.apply(&place.pool).await {
            Ok(()) => assert!(*steady, "{kind} was taken"),
            Err(error) => {
                assert!(!steady, "{kind}: {error}");
                assert!(matches!(error, ProtectError::Unguardable { .. }), "{error:?}");
                assert!(error.to_string().contains("depends on the session"), "{error}");
            }
        }
    }
}
