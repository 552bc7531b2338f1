//! Dumps, and what it takes to restore them. pg_restore works under an empty search path.

use support::clients::output;

use super::setup::*;

async fn at_34() -> Place {
    let place = migrated().await;
    for table in ["documents", "papers"] {
        run(&place.pool, &format!("CREATE TABLE {table} (path text PRIMARY KEY, body text)")).await;
        by_path(table).apply(&place.pool).await.unwrap();
    }
    let insert = "BEGIN; SELECT fencing_present('34');
        INSERT INTO documents VALUES ('a', 'new'); INSERT INTO papers VALUES ('a', 'new'); COMMIT";
    place.client(insert).unwrap();
    place
}

#[tokio::test]
async fn data_alone_is_restored_by_who_presents_a_token() {
    let place = at_34().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    let mut dump = place.program("pg_dump");
    dump.args(["-a", "-Fc", "-t", "documents", "-t", "papers", "-f"]).arg(&file);
    output(&mut dump).unwrap();
    let restore = |token: Option<&str>, options: &[&str]| {
        let delete = "BEGIN; SELECT fencing_present('34'); DELETE FROM documents;
            DELETE FROM papers; COMMIT";
        place.client(delete).unwrap();
        let mut restore = place.program("pg_restore");
        if let Some(token) = token {
            restore.env("PGOPTIONS", format!("-c fencing.token={token}"));
        }
        output(restore.args(["-a", "--exit-on-error"]).args(options).arg(&file))
    };
    let error = restore(None, &[]).unwrap_err();
    assert!(error.contains("no token presented, high water 34, resource files/a"), "{error}");
    let error = restore(Some("33"), &["-1"]).unwrap_err();
    assert!(error.contains("token 33 is stale, high water 34"), "{error}");
    for (token, options) in [(Some("34"), ["-1"]), (None, ["--disable-triggers"])] {
        restore(token, &options).unwrap();
        let bodies = "SELECT body FROM documents UNION ALL SELECT body FROM papers";
        let bodies = sqlx::query_scalar::<_, String>(bodies).fetch_all(&place.pool).await;
        assert_eq!(bodies.unwrap(), ["new", "new"]);
    }
}

#[tokio::test]
async fn a_whole_database_comes_back_with_its_marks_and_guards() {
    let place = at_34().await;
    let other = named("other");
    raise(&place.pool, &other, 50).await;
    run(&place.pool, place::OLDER).await;
    raise(&place.pool, &resource(), 35).await;
    let pruned = Prune::older_than(Duration::from_secs(3600)).run(&place.pool).await.unwrap();
    assert_eq!((pruned.marks, pruned.floor), (1, Some(token(50))));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all");
    let mut dump = place.program("pg_dump");
    output(dump.args(["-Fc", "-f"]).arg(&file)).unwrap();
    let again = Place::empty().await;
    let mut restore = again.program("pg_restore");
    output(restore.args(["--exit-on-error"]).arg(&file)).unwrap();
    sql::migrate(&again.pool).await.unwrap();
    let found = sql::protected(&again.pool, None).await.unwrap();
    assert!(found.len() == 2 && found.iter().all(sql::Protected::is_whole), "{found:?}");
    stale(sql::begin(&again.pool, &other, token(50)).await);
    // Below the floor, and it has its mark.
    raise(&again.pool, &resource(), 35).await;
    stale(sql::begin(&again.pool, &resource(), token(34)).await);
    let pathless = again.with(&[("search_path", "")]);
    unpresented(attempt(&pathless, "UPDATE public.documents SET body = 'bad'").await);
    let mut tx = presenting(&pathless, 35).await;
    run(&mut *tx, "UPDATE public.documents SET body = 'good'").await;
}
