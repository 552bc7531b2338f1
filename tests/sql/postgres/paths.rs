//! What a session brings along: its search path, temporary tables, and a token.

use fencing::fence::Marks;
use fencing::sql::{self, AdmitError, Protect, SqlMarks};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgPool};

use super::place::Place;
use super::setup::{attempt, by_path, raise, run, with};
use crate::common::{resource, stale, token, unpresented};

const OTHER: &str = "(resource text PRIMARY KEY, token bigint)";

/// A protected table with the row `a`, whose mark is 34.
async fn at_34() -> Place {
    let place = with(
        "CREATE TABLE files (path text PRIMARY KEY, body text);
        INSERT INTO files VALUES ('a', 'old')",
    )
    .await;
    by_path("files").apply(&place.pool).await.unwrap();
    raise(&place.pool, &resource(), 34).await;
    place
}

/// A pool of one connection, which begins with this statement.
fn single(place: &Place, first: &'static str) -> PgPool {
    let options = PgPoolOptions::new()
        .max_connections(1)
        .after_connect(move |conn, _| Box::pin(async move { conn.execute(first).await.map(drop) }));
    options.connect_lazy_with((*place.pool.connect_options()).clone())
}

async fn write(pool: &PgPool, number: Option<u64>) -> Result<(), AdmitError> {
    let mut tx = pool.begin().await?;
    if let Some(number) = number {
        sql::present(&mut tx, token(number)).await?;
    }
    tx.execute("UPDATE public.files SET body = 'written'").await?;
    Ok(tx.commit().await?)
}

/// No way in accepts 33 where the mark is 34.
async fn is_stale_in_every_way(pool: &PgPool) {
    stale(sql::begin(pool, &resource(), token(33)).await);
    let mut tx = pool.begin().await.unwrap();
    stale(sql::admit(&mut tx, &resource(), token(33)).await);
    tx.rollback().await.unwrap();
    SqlMarks::new(pool.clone()).raise(&resource(), token(33)).await.unwrap_err();
    assert_eq!(sql::highest(pool, &resource()).await.unwrap(), Some(token(34)));
    stale(write(pool, Some(33)).await);
    write(pool, Some(34)).await.unwrap();
    raise(pool, &resource(), 34).await;
}

#[tokio::test]
async fn a_schema_in_front_does_not_stand_for_the_marks() {
    let place = at_34().await;
    let evil = format!("CREATE SCHEMA evil; CREATE TABLE evil.fencing_marks {OTHER}");
    run(&place.pool, &evil).await;
    is_stale_in_every_way(&single(&place, "SET search_path = evil, public")).await;
}

#[tokio::test]
async fn a_protected_table_is_written_under_an_empty_path() {
    let place = at_34().await;
    let pool = single(&place, "SET search_path = ''");
    write(&pool, Some(34)).await.unwrap();
    stale(write(&pool, Some(33)).await);
    assert!(matches!(write(&pool, None).await, Err(AdmitError::Unpresented(_))));
}

#[tokio::test]
async fn a_second_table_of_marks_on_the_path_is_not_created() {
    let place = at_34().await;
    run(&place.pool, "CREATE SCHEMA app").await;
    let error = sql::migrate(&single(&place, "SET search_path = app, public")).await.unwrap_err();
    assert!(error.to_string().contains("public.fencing_marks"), "{error}");
    // Schemas that no path joins have fences of their own.
    sql::migrate(&single(&place, "SET search_path = app")).await.unwrap();
    let app = single(&place, "SET search_path = app");
    raise(&app, &resource(), 1).await;
    assert_eq!(sql::highest(&app, &resource()).await.unwrap(), Some(token(1)));
    assert_eq!(sql::highest(&place.pool, &resource()).await.unwrap(), Some(token(34)));
}

#[tokio::test]
async fn a_token_counts_in_the_transaction_that_presents_it() {
    let place = at_34().await;
    let pool = single(&place, "SELECT 1");
    // Kept for the session in the form that counted before.
    let mut tx = pool.begin().await.unwrap();
    sql::present(&mut tx, token(34)).await.unwrap();
    run(
        &mut *tx,
        "SELECT set_config('fencing.sequencer', current_setting('fencing.sequencer'), false)",
    )
    .await;
    run(&mut *tx, "UPDATE public.files SET body = 'first'").await;
    tx.commit().await.unwrap();
    assert!(matches!(write(&pool, None).await, Err(AdmitError::Unpresented(_))));
    write(&pool, Some(34)).await.unwrap();
}

/// SET without LOCAL: a pool hands it on to the next, who has presented nothing.
#[tokio::test]
async fn a_setting_that_stays_in_the_session_is_used_up() {
    let place = at_34().await;
    for set in ["fencing.token = '34'", "fencing.sequencer = '34 files/a'"] {
        let pool = single(&place, "SELECT 1");
        run(&pool, &format!("SET {set}")).await;
        let mut tx = pool.begin().await.unwrap();
        for statement in [
            "UPDATE files SET body = 'first'",
            "UPDATE files SET body = 'second'",
            "SAVEPOINT one",
            "UPDATE files SET body = 'third'",
            "ROLLBACK TO one",
            "UPDATE files SET body = 'fourth'",
        ] {
            tx.execute(statement).await.expect(statement);
        }
        tx.commit().await.unwrap();
        for _ in 0..2 {
            assert!(matches!(write(&pool, None).await, Err(AdmitError::Unpresented(_))), "{set}");
            write(&pool, Some(34)).await.unwrap();
        }
        // With LOCAL it counts in each transaction, as often as it is sent.
        for _ in 0..3 {
            let mut tx = pool.begin().await.unwrap();
            for set in [set, "fencing.token = '34'", set] {
                run(&mut *tx, &format!("SET LOCAL {set}")).await;
                run(&mut *tx, "UPDATE files SET body = 'local'").await;
            }
            tx.commit().await.unwrap();
            assert!(matches!(write(&pool, None).await, Err(AdmitError::Unpresented(_))), "{set}");
        }
        // Where the writers send two tokens, the second counts from there on.
        let mut tx = pool.begin().await.unwrap();
        run(&mut *tx, "SET LOCAL fencing.token = '34'").await;
        run(&mut *tx, "UPDATE files SET body = 'local'").await;
        run(&mut *tx, "SET LOCAL fencing.token = '33'").await;
        let error = tx.execute("UPDATE files SET body = 'local'").await.unwrap_err();
        stale(Err::<(), _>(error.into()));
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
    assert!(sql::protected(&place.pool, None).await.unwrap()[0].is_whole());
    let protect = by_path("files");
    // What a path leads to that has another schema in front is refused, and nothing is changed.
    let error = protect.apply(&single(&place, "SET search_path = elsewhere, public")).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("calls elsewhere.fencing_protect()"), "{error}");
    assert!(sql::protected(&place.pool, None).await.unwrap()[0].is_whole());
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
        run(
            &place.pool,
            &format!("DROP TRIGGER {trigger} ON files; CREATE TRIGGER {trigger} {create}"),
        )
        .await;
        let words = format!(
            "the trigger {trigger} on files calls elsewhere.{trigger}(), and the session finds the \
             marks in public"
        );
        for name in [None, Some("files")] {
            let found = sql::protected(&place.pool, name).await.unwrap();
            assert!(found[0].faults.contains(&words), "{found:?}");
        }
        protect.apply(&place.pool).await.unwrap();
        assert!(sql::protected(&place.pool, None).await.unwrap()[0].is_whole());
    }
}

/// Two fences in two schemas: each lists its own tables.
#[tokio::test]
async fn the_tables_of_another_fence_are_not_listed() {
    let place = at_34().await;
    run(&place.pool, "CREATE SCHEMA app; CREATE TABLE app.papers (path text)").await;
    let app = single(&place, "SET search_path = app");
    sql::migrate(&app).await.unwrap();
    Protect::rows("papers", "path").unwrap().apply(&app).await.unwrap();
    for (pool, own, other) in
        [(&app, "papers", "public.files"), (&place.pool, "files", "app.papers")]
    {
        let found = sql::protected(pool, None).await.unwrap();
        assert_eq!((found.len(), found[0].table.as_str()), (1, own), "{found:?}");
        assert!(found[0].is_whole(), "{found:?}");
        let named = sql::protected(pool, Some(other)).await.unwrap();
        assert!(named[0].is_protected() && !named[0].is_whole(), "{named:?}");
    }
}

#[tokio::test]
async fn what_begin_admits_it_presents() {
    let place = at_34().await;
    run(
        &place.pool,
        "BEGIN; SELECT fencing_present('5'); INSERT INTO files VALUES ('b', 'b'); COMMIT",
    )
    .await;
    for isolation in ["read committed", "serializable"] {
        run(
            &place.pool,
            &format!(
                "ALTER DATABASE {} SET default_transaction_isolation = '{isolation}'",
                place.pool.connect_options().get_database().unwrap()
            ),
        )
        .await;
        let pool = place.other();
        let mut tx = sql::begin(&pool, &resource(), token(35)).await.unwrap();
        run(&mut *tx, "UPDATE files SET body = 'a' WHERE path = 'a'").await;
        run(&mut *tx, "SAVEPOINT one").await;
        let error = tx.execute("UPDATE files SET body = 'a' WHERE path = 'b'").await.unwrap_err();
        assert!(
            error.to_string().contains("35 files/a of another resource, high water "),
            "{error}"
        );
        assert!(matches!(AdmitError::from(error), AdmitError::Unpresented(_)));
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
    one.execute("CREATE TABLE files (path text)").await.unwrap();
    Protect::rows("files", "path").unwrap().apply(&one).await.unwrap();
    run(&place.pool, "ALTER SCHEMA one RENAME TO two").await;
    let two = place.with(&[("search_path", "two")]);
    let error = sql::migrate(&two).await.unwrap_err();
    assert!(matches!(error, sql::MigrateError::Lost { .. }), "{error:?}");
    let said = "fencing_admit (it looks for the marks in the schema one)";
    assert!(error.to_string().contains(said), "{error}");
    let found = sql::protected(&two, None).await.unwrap();
    assert!(found[0].faults.join("; ").contains(said), "{found:?}");
    two.execute("DELETE FROM _fencing_migrations").await.unwrap();
    sql::migrate(&two).await.unwrap();
    let found = sql::protected(&two, None).await.unwrap();
    assert!(found[0].is_whole(), "{found:?}");
}
