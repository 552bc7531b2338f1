//! Clients in other languages: psql, mariadb, and Python's own sqlite3.

use super::*;

/// A table that the database guards, with `a` written by token 34.
async fn protected(protect: Protect) -> Place {
    let place = with(DOCUMENTS).await;
    protect.apply(&place.pool).await.unwrap();
    // Again: nothing is in its own way.
    protect.apply(&place.pool).await.unwrap();
    place.client(&place::insert(Some("34"), "a", "new")).unwrap();
    assert_eq!(bodies(&place).await, ["new"]);
    place
}

/// What the database says, and its SQLSTATE. Returns all of it.
#[track_caller]
pub fn is_refused(place: &Place, write: &str, words: &str, state: &str) -> String {
    let error = place.client(write).unwrap_err();
    assert!(error.contains(words), "{write}: {error}");
    assert!(place::STATES.is_empty() || error.contains(state), "{write}: {error}");
    error
}

#[tokio::test]
async fn any_language_calls_the_fence() {
    let place = migrated().await;
    for number in ["33", "34", "34"] {
        place.client(&place::call("files/a", number)).unwrap();
    }
    assert_eq!(highest(&place, &resource()).await, Some(34));
    let words = "fencing: token 33 is stale, high water 34, resource files/a";
    is_refused(&place, &place::call("files/a", "33"), words, "ZF412");
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
    let place = protected(by_path("documents")).await;
    for write in [
        place::update(None, "a", "bad"),
        place::delete(None, "a"),
        place::insert(None, "a2", "bad"),
        "UPDATE documents SET body = 'bad'".into(),
        "DELETE FROM documents".into(),
    ] {
        let (high, path) = if write.contains("a2") { ("none", "a2") } else { ("34", "a") };
        let words = format!("fencing: no token presented, high water {high}, resource files/{path}");
        is_refused(&place, &write, &words, "ZF428");
    }
    assert_eq!(bodies(&place).await, ["new"]);
}

#[tokio::test]
async fn a_protected_table_refuses_whoever_is_stale() {
    let place = protected(by_path("documents")).await;
    for write in
        [place::update(Some("33"), "a", "bad"), place::delete(Some("33"), "a"), place::rename(Some("33"), "a", "c")]
    {
        is_refused(&place, &write, "fencing: token 33 is stale, high water 34, resource files/a", "ZF412");
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
    for late in [place::insert(Some("35"), "a", "bad"), place::rename(Some("35"), "b", "a")] {
        place.client(&late).unwrap_err();
    }
    place.client(&place::insert(Some("36"), "a", "again")).unwrap();
    // A row that changes its name needs the token for both.
    place.client(&place::rename(Some("40"), "a", "c")).unwrap();
    assert_eq!(highest(&place, &resource()).await, Some(40));
}

#[tokio::test]
async fn a_table_may_be_one_resource() {
    let name = named("it's \"all\" `of` \\ ä");
    let place = protected(Protect::whole("documents", name.clone()).unwrap()).await;
    assert_eq!(highest(&place, &name).await, Some(34));
    place.client(&place::insert(Some("33"), "b", "bad")).unwrap_err();
    place.client(&place::insert(Some("34"), "b", "good")).unwrap();
    assert_eq!(bodies(&place).await, ["new", "good"]);
}

#[tokio::test]
async fn names_are_quoted() {
    let place = ready().await;
    let table = "t\"'`; NEW`; DROP TABLE files; --";
    let column = "c\"'`;%I$1?NEW.\"";
    run(&place.pool, &place::create(table, column)).await;
    let protect = Protect::rows(table, column).unwrap().prefix("p'\\\"`").unwrap();
    protect.apply(&place.pool).await.unwrap();
    protect.apply(&place.pool).await.unwrap();
    let error = place.client(&place::insert_into(table, "a")).unwrap_err();
    assert!(error.contains("no token presented, high water none, resource p'"), "{error}");
    assert_eq!(file(&place).await, (0, 0), "the table is still there");
    let quoted = found(&place.pool, table).await;
    assert!(quoted.is_whole(), "{quoted:?}");
    quoted.remove(&place.pool).await.unwrap();
    assert!(!found(&place.pool, table).await.is_protected());
    for bad in ["", "a\0b", "a\nb", "a."] {
        assert!(Protect::rows(bad, "c").is_err(), "{bad:?}");
    }
    assert!(Protect::rows("t", "").is_err());
}
