use fencing::sql::ProtectError;

use super::foreign::is_refused;
use super::*;

fn by(columns: &[&str]) -> Protect {
    Protect::rows_by("documents", columns).unwrap()
}

#[tokio::test]
async fn what_is_missing_is_named_and_nothing_is_changed() {
    let place = with(DOCUMENTS).await;
    // A protection outlives others that fail.
    for writes in [Ok(()), Err(())] {
        for (protect, why) in [
            (by(&["nope"]), "documents has no column nope"),
            (by(&["path", "nope"]), "documents has no column nope"),
            (Protect::rows("nope", "path").unwrap(), "the table nope does not exist"),
            (Protect::whole("nope", resource()).unwrap(), "the table nope does not exist"),
        ] {
            let error = protect.apply(&place.pool).await.unwrap_err();
            let missing = matches!(error, ProtectError::Column { .. } | ProtectError::Table { .. });
            assert!(missing && error.to_string().contains(why), "{error:?}");
        }
        assert_eq!(place.client(&place::insert(None, "a", "new")).map(drop).map_err(drop), writes);
        by(&["path"]).apply(&place.pool).await.unwrap();
    }
    assert!(Protect::rows_by("documents", &[]).is_err());
}

#[tokio::test]
async fn several_columns_name_a_row_and_no_two_rows_have_one_name() {
    let place = with(DOCUMENTS).await;
    by(&["path", "body"]).prefix("p/").unwrap().apply(&place.pool).await.unwrap();
    for (path, body, resource) in [
        ("a/b", "c", "p/a%2Fb/c"),
        ("a", "b/c", "p/a/b%2Fc"),
        ("%2F", "", "p/%252F/"),
        ("", "/", "p//%2F"),
        ("ä", "B", "p/ä/B"),
    ] {
        let words = format!("no token presented, high water none, resource {resource}");
        is_refused(&place, &place::insert(None, path, body), &words, "ZF428");
    }
    place.client(&place::insert(Some("34"), "a/b", "c")).unwrap();
    let words = "is stale, high water 34, resource p/a%2Fb/c";
    is_refused(&place, &place::update(Some("33"), "a/b", "d"), words, "ZF412");
    place.client(&place::insert(Some("1"), "a", "b/c")).unwrap();
    // Both names of a row that changes its name.
    place.client(&place::insert(Some("40"), "x", "b/c")).unwrap();
    place.client(&place::delete(Some("40"), "x")).unwrap();
    let words = "is stale, high water 40, resource p/x/b%2Fc";
    is_refused(&place, &place::rename(Some("1"), "a", "x"), words, "ZF412");
    place.client(&place::update(Some("35"), "a/b", "d")).unwrap();
    place.client(&place::update(Some("34"), "a/b", "c")).unwrap_err();
}

#[tokio::test]
async fn the_catalogue_says_which_tables_are_protected_and_how() {
    let place = with(DOCUMENTS).await;
    assert_eq!(sql::protected(&place.pool, None).await.unwrap(), []);
    for (protect, resource) in [
        (by(&["path"]), "{path}"),
        (by(&["path"]).prefix("it's/\\`\"/").unwrap(), "it's/\\`\"/{path}"),
        (by(&["path", "body"]), "{path}/{body}"),
        (Protect::whole("documents", named("it's \\ NEW.`x`")).unwrap(), "it's \\ NEW.`x`"),
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
    let other = found(&place.pool, "other").await;
    assert!(!other.is_whole() && !other.is_protected(), "{other:?}");
    assert!(other.faults[0].starts_with("it is not protected"), "{other:?}");
    for own in ["fencing_leases", "public.Fencing_Marks"] {
        assert!(Protect::rows(own, "resource").unwrap_err().to_string().contains("one of the fence"));
    }
    let error = sql::protected(&place.pool, Some("nope")).await.unwrap_err();
    assert!(error.to_string().contains("the table nope does not exist"), "{error}");
}

/// Somebody protects the table again and forgets the prefix. The marks of `docs/a` would not count for `a`.
#[tokio::test]
async fn a_protected_table_does_not_get_other_names() {
    let place = with(DOCUMENTS).await;
    by(&["path"]).prefix("docs/").unwrap().apply(&place.pool).await.unwrap();
    place.client(&place::insert(Some("40"), "a", "new")).unwrap();
    let error = by(&["path"]).apply(&place.pool).await.unwrap_err();
    assert!(matches!(error, ProtectError::Unguardable { .. }), "{error:?}");
    assert!(error.to_string().contains("its rows named docs/{path}: as {path} they"), "{error}");
    place.client(&place::update(Some("39"), "a", "stale")).unwrap_err();
    place.client(&place::update(Some("40"), "a", "newer")).unwrap();
    found(&place.pool, "documents").await.remove(&place.pool).await.unwrap();
    place.client(&place::update(None, "a", "free")).unwrap();
    let free = found(&place.pool, "documents").await;
    assert!(!free.is_protected() && !free.is_whole(), "{free:?}");
    by(&["path"]).apply(&place.pool).await.unwrap();
    place.client(&place::update(None, "a", "bad")).unwrap_err();
}

#[tokio::test]
async fn rows_that_nobody_could_change_are_found_first() {
    let place = ready().await;
    let drafts = "CREATE TABLE drafts (id INT PRIMARY KEY, path VARCHAR(300), kind VARCHAR(9))";
    let rows = format!("(1, NULL, 'a'), (2, '{}', 'a'), (3, 'a', 'a')", "x".repeat(250));
    run(&place.pool, &format!("{drafts}; INSERT INTO drafts VALUES {rows}")).await;
    for protect in [Protect::rows("drafts", "path"), Protect::rows_by("drafts", &["path", "kind"])] {
        let protect = protect.unwrap().prefix("it's\\/").unwrap();
        let error = protect.apply(&place.pool).await.unwrap_err().to_string();
        assert!(error.contains("2 of its rows could not be changed later: 1 without"), "{error}");
        let (_, select) = error.split_once("delete them: ").unwrap();
        let select = sqlx::raw_sql(sqlx::AssertSqlSafe(select.to_owned()));
        assert_eq!(select.fetch_all(&place.pool).await.unwrap().len(), 2);
    }
    run(&place.pool, "DELETE FROM drafts WHERE id < 3").await;
    Protect::rows("drafts", "path").unwrap().apply(&place.pool).await.unwrap();
}

/// Who waits for a table keeps everybody out who comes later.
#[tokio::test]
async fn a_table_that_others_use_is_given_up_and_they_go_on() {
    let place = ready().await;
    run(&place.pool, DOCUMENTS).await;
    let protect = by(&["path"]);
    for protects in [true, false] {
        let mut tx = place.pool.begin().await.unwrap();
        let holds = match protects {
            true => "INSERT INTO documents VALUES ('a', 'mine')",
            false => "UPDATE files SET late = 0; SELECT path FROM documents",
        };
        run(&mut *tx, holds).await;
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
        number(&place.pool, "SELECT count(*) FROM documents").await;
        tx.rollback().await.unwrap();
        protect.apply(&pool).await.unwrap();
        assert!(found(&place.pool, "documents").await.is_whole());
    }
}

#[tokio::test]
async fn a_column_whose_text_depends_on_the_session_names_no_resource() {
    let place = ready().await;
    run(&place.pool, place::TYPES).await;
    let all = [(place::VARYING, false), (place::STEADY, true)];
    let kinds = all.into_iter().flat_map(|(kinds, steady)| kinds.split_terminator(';').map(move |kind| (kind, steady)));
    for (number, (kind, steady)) in kinds.enumerate() {
        run(&place.pool, &format!("CREATE TABLE slots_{number} (at {kind} NULL, body TEXT)")).await;
        match Protect::rows(&format!("slots_{number}"), "at").unwrap().apply(&place.pool).await {
            Ok(()) => assert!(steady, "{kind} was taken"),
            Err(error) => {
                assert!(!steady, "{kind}: {error}");
                assert!(matches!(error, ProtectError::Unguardable { .. }), "{error:?}");
                assert!(error.to_string().contains("depends on the session"), "{error}");
            }
        }
    }
}
