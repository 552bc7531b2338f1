//! What a session brings along: its search path, temporary tables, and a token.

use sqlx::PgPool;

use super::setup::*;
use super::suite::writers::{WAYS, Writer, ready_for};

/// A protected table with the row `a`, whose mark is 34.
async fn at_34() -> Place {
    let files = "CREATE TABLE files (path text PRIMARY KEY, body text); INSERT INTO files VALUES ('a', 'old')";
    let place = with(files).await;
    by_path("files").apply(&place.pool).await.unwrap();
    raise(&place.pool, &resource(), 34).await;
    place
}

/// A pool of one connection with this search path.
fn on_path(place: &Place, path: &'static str) -> PgPool {
    single(&place.with(&[("search_path", path)]))
}

async fn write(pool: &PgPool, number: Option<u64>) -> Result<(), AdmitError> {
    let mut tx = pool.begin().await?;
    if let Some(number) = number {
        sql::present(&mut tx, token(number)).await?;
    }
    tx.execute("UPDATE public.files SET body = 'written'").await?;
    Ok(tx.commit().await?)
}

#[tokio::test]
async fn a_schema_in_front_does_not_stand_for_the_marks() {
    for way in WAYS {
        let place = ready_for(way).await;
        raise(&place.pool, &resource(), 34).await;
        let evil = "CREATE SCHEMA evil;
            CREATE TABLE evil.fencing_marks (resource text PRIMARY KEY, token bigint)";
        run(&place.pool, evil).await;
        let pool = on_path(&place, "evil, public");
        stale(Writer::new(way).write(&pool, 33).await);
        SqlMarks::new(pool.clone()).raise(&resource(), token(33)).await.unwrap_err();
        assert_eq!(sql::highest(&pool, &resource()).await.unwrap(), Some(token(34)));
        Writer::new(way).write(&pool, 34).await.unwrap();
    }
}

#[tokio::test]
async fn a_second_table_of_marks_on_the_path_is_not_created_and_fences_in_two_schemas_are_apart() {
    let place = at_34().await;
    run(&place.pool, "CREATE SCHEMA app; CREATE TABLE app.papers (path text)").await;
    let error = sql::migrate(&on_path(&place, "app, public")).await.unwrap_err();
    assert!(error.to_string().contains("public.fencing_marks"), "{error}");
    // Schemas that no path joins have fences of their own, and each lists its own tables.
    let app = on_path(&place, "app");
    sql::migrate(&app).await.unwrap();
    raise(&app, &resource(), 1).await;
    assert_eq!(sql::highest(&app, &resource()).await.unwrap(), Some(token(1)));
    assert_eq!(sql::highest(&place.pool, &resource()).await.unwrap(), Some(token(34)));
    Protect::rows("papers", "path").unwrap().apply(&app).await.unwrap();
    for (pool, own, other) in [(&app, "papers", "public.files"), (&place.pool, "files", "app.papers")] {
        let found = sql::protected(pool, None).await.unwrap();
        assert_eq!((found.len(), found[0].table.as_str()), (1, own), "{found:?}");
        assert!(found[0].is_whole(), "{found:?}");
        let named = self::found(pool, other).await;
        assert!(named.is_protected() && !named.is_whole(), "{named:?}");
    }
}

#[tokio::test]
async fn a_token_counts_in_the_transaction_that_presents_it() {
    let place = at_34().await;
    let pool = single(&place.pool);
    // Kept for the session in the form that counted before.
    let mut tx = presenting(&pool, 34).await;
    let keep = "SELECT set_config('fencing.sequencer', current_setting('fencing.sequencer'), false)";
    run(&mut *tx, &format!("{keep}; UPDATE files SET body = 'first'")).await;
    tx.commit().await.unwrap();
    unpresented(write(&pool, None).await);
    write(&pool, Some(34)).await.unwrap();
}

/// SET without LOCAL: a pool hands it on to the next, who has presented nothing.
#[tokio::test]
async fn a_setting_that_stays_in_the_session_is_used_up() {
    let place = at_34().await;
    for set in ["fencing.token = '34'", "fencing.sequencer = '34 files/a'"] {
        let pool = single(&place.pool);
        run(&pool, &format!("SET {set}")).await;
        let mut tx = pool.begin().await.unwrap();
        run(&mut *tx, "UPDATE files SET body = 'first'").await;
        run(&mut *tx, "UPDATE files SET body = 'second'").await;
        run(&mut *tx, "SAVEPOINT one; UPDATE files SET body = 'third'; ROLLBACK TO one").await;
        run(&mut *tx, "UPDATE files SET body = 'fourth'").await;
        tx.commit().await.unwrap();
        for _ in 0..2 {
            unpresented(write(&pool, None).await);
            write(&pool, Some(34)).await.unwrap();
        }
        // With LOCAL it counts in each transaction, as often as it is sent.
        for _ in 0..3 {
            let mut tx = pool.begin().await.unwrap();
            for set in [set, "fencing.token = '34'", set] {
                run(&mut *tx, &format!("SET LOCAL {set}; UPDATE files SET body = 'local'")).await;
            }
            tx.commit().await.unwrap();
            unpresented(write(&pool, None).await);
        }
        // Where the writers send two tokens, the second counts from there on.
        let mut tx = pool.begin().await.unwrap();
        let first = "UPDATE files SET body = 'first'; UPDATE files SET body = 'second'";
        run(&mut *tx, &format!("SET LOCAL fencing.token = '34'; {first}; SET LOCAL fencing.token = '33'")).await;
        stale(attempt(&mut *tx, "UPDATE files SET body = 'local'").await);
    }
}

/// A function of the same name in another schema may check nothing.
#[tokio::test]
async fn the_function_of_another_schema_is_not_the_fence() {
    const ELSEWHERE: &str = "CREATE SCHEMA elsewhere;
        CREATE FUNCTION elsewhere.fencing_protect() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN RETURN NEW; END';
        CREATE FUNCTION elsewhere.fencing_protect_truncate() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN RETURN NULL; END'";
    let place = at_34().await;
    run(&place.pool, ELSEWHERE).await;
    assert_eq!(faults(&place).await, "");
    let protect = by_path("files");
    // What a path leads to that has another schema in front is refused, and nothing is changed.
    let error = protect.apply(&on_path(&place, "elsewhere, public")).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("calls elsewhere.fencing_protect()"), "{error}");
    for (trigger, create) in [
        (
            "fencing_protect",
            "AFTER INSERT OR UPDATE OR DELETE ON files FOR EACH ROW
            EXECUTE FUNCTION elsewhere.fencing_protect('refuse', 'path', 'files/')",
        ),
        (
            "fencing_protect_truncate",
            "BEFORE TRUNCATE ON files EXECUTE FUNCTION elsewhere.fencing_protect_truncate('refuse')",
        ),
    ] {
        let words = format!(
            "the trigger {trigger} on files calls elsewhere.{trigger}(), and the session finds the \
             marks in public"
        );
        let change = format!("DROP TRIGGER {trigger} ON files; CREATE TRIGGER {trigger} {create}");
        is_found_and_mended(&place, &change, &words).await;
    }
}

#[tokio::test]
async fn what_begin_admits_it_presents() {
    let place = at_34().await;
    place.client(&place::presented(Some("5"), "INSERT INTO files VALUES ('b', 'b')")).unwrap();
    for isolation in ["read committed", "serializable"] {
        let pool = place.at(isolation);
        let mut tx = begin(&pool, 35).await.unwrap();
        run(&mut *tx, "UPDATE files SET body = 'a' WHERE path = 'a'").await;
        run(&mut *tx, "SAVEPOINT one").await;
        let other = attempt(&mut *tx, "UPDATE files SET body = 'a' WHERE path = 'b'").await;
        let AdmitError::Unpresented(said) = other.unwrap_err() else { panic!("presented") };
        assert!(said.to_string().contains("35 files/a of another resource, high water "), "{said}");
        run(&mut *tx, "ROLLBACK TO SAVEPOINT one; SET LOCAL fencing.token = '99'").await;
        unpresented(attempt(&mut *tx, "UPDATE files SET body = 'a' WHERE path = 'b'").await);
        run(&mut *tx, "ROLLBACK TO SAVEPOINT one; SET LOCAL fencing.sequencer = '6 files/b'").await;
        run(&mut *tx, "UPDATE files SET body = 'b' WHERE path = 'b'").await;
        tx.commit().await.unwrap();
        // Without SET LOCAL at the end of the transaction nothing is left.
        unpresented(attempt(&pool, "UPDATE files SET body = 'c' WHERE path = 'b'").await);
    }
    for bad in ["35", "35 ", "@35 files/a", "x files/a"] {
        let mut tx = place.pool.begin().await.unwrap();
        run(&mut *tx, &format!("SET LOCAL fencing.sequencer = '{bad}'")).await;
        tx.execute("UPDATE files SET body = 'bad'").await.unwrap_err();
    }
}

/// The functions keep the path with the old name, and all writes fail.
#[tokio::test]
async fn a_schema_that_was_renamed_is_named() {
    let place = Place::empty().await;
    run(&place.pool, "CREATE SCHEMA one").await;
    let one = place.with(&[("search_path", "one")]);
    sql::migrate(&one).await.unwrap();
    run(&one, "CREATE TABLE files (path text)").await;
    by_path("files").apply(&one).await.unwrap();
    run(&place.pool, "ALTER SCHEMA one RENAME TO two").await;
    let two = place.with(&[("search_path", "two")]);
    let error = sql::migrate(&two).await.unwrap_err();
    assert!(matches!(error, sql::MigrateError::Lost { .. }), "{error:?}");
    let said = "fencing_admit (it looks for the marks in the schema one)";
    assert!(error.to_string().contains(said), "{error}");
    assert!(found(&two, "files").await.faults.join("; ").contains(said));
    run(&two, "DELETE FROM _fencing_migrations").await;
    sql::migrate(&two).await.unwrap();
    assert!(found(&two, "files").await.is_whole());
}
