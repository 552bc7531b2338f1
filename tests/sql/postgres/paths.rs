//! What a session brings along: its search path, temporary tables, and a token.

use fencing::fence::Marks;
use fencing::sql::{self, AdmitError, Protect, SqlMarks};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Executor, PgPool};

use super::place::Place;
use crate::common::{resource, stale, token};

const OTHER: &str = "(resource text PRIMARY KEY, token bigint)";

/// A protected table with the row `a`, whose mark is 34.
async fn at_34() -> Place {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    let files = "CREATE TABLE files (path text PRIMARY KEY, body text);
        INSERT INTO files VALUES ('a', 'old')";
    sqlx::raw_sql(files).execute(&place.pool).await.unwrap();
    let protect = Protect::rows("files", "path").unwrap().prefix("files/").unwrap();
    protect.apply(&place.pool).await.unwrap();
    let tx = sql::begin(&place.pool, &resource(), token(34)).await.unwrap();
    tx.commit().await.unwrap();
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
    sql::begin(pool, &resource(), token(34)).await.unwrap().commit().await.unwrap();
}

#[tokio::test]
async fn a_temporary_table_does_not_stand_for_the_marks() {
    let place = at_34().await;
    let pool = single(
        &place,
        "CREATE TEMPORARY TABLE fencing_marks (resource text PRIMARY KEY, token bigint);
        INSERT INTO fencing_marks VALUES ('files/a', 33)",
    );
    is_stale_in_every_way(&pool).await;
}

#[tokio::test]
async fn a_schema_in_front_does_not_stand_for_the_marks() {
    let place = at_34().await;
    let evil = format!("CREATE SCHEMA evil; CREATE TABLE evil.fencing_marks {OTHER}");
    sqlx::raw_sql(AssertSqlSafe(evil)).execute(&place.pool).await.unwrap();
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
    place.pool.execute("CREATE SCHEMA app").await.unwrap();
    let error = sql::migrate(&single(&place, "SET search_path = app, public")).await.unwrap_err();
    assert!(error.to_string().contains("public.fencing_marks"), "{error}");
    // Schemas that no path joins have fences of their own.
    sql::migrate(&single(&place, "SET search_path = app")).await.unwrap();
    let app = single(&place, "SET search_path = app");
    sql::begin(&app, &resource(), token(1)).await.unwrap().commit().await.unwrap();
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
    let keep =
        "SELECT set_config('fencing.sequencer', current_setting('fencing.sequencer'), false)";
    tx.execute(keep).await.unwrap();
    tx.execute("UPDATE public.files SET body = 'first'").await.unwrap();
    tx.commit().await.unwrap();
    assert!(matches!(write(&pool, None).await, Err(AdmitError::Unpresented(_))));
    write(&pool, Some(34)).await.unwrap();
}

#[tokio::test]
async fn a_column_whose_text_depends_on_the_session_names_no_resource() {
    let place = at_34().await;
    let kinds = "CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE DOMAIN day AS date;
        CREATE DOMAIN name_of AS text; CREATE DOMAIN later AS day";
    sqlx::raw_sql(kinds).execute(&place.pool).await.unwrap();
    for (number, (kind, steady)) in [
        ("timestamptz", false),
        ("timestamp", false),
        ("date", false),
        ("interval", false),
        ("bytea", false),
        ("double precision", false),
        ("real", false),
        ("money", false),
        ("regclass", false),
        ("date[]", false),
        ("point", false),
        ("day", false),
        ("later", false),
        ("text", true),
        ("varchar(9)", true),
        ("char(9)", true),
        ("uuid", true),
        ("bigint", true),
        ("numeric", true),
        ("boolean", true),
        ("inet", true),
        ("mood", true),
        ("name_of", true),
    ]
    .into_iter()
    .enumerate()
    {
        let create = format!("CREATE TABLE slots_{number} (at {kind}, body text)");
        place.pool.execute(AssertSqlSafe(create)).await.unwrap();
        let protect = Protect::rows(&format!("slots_{number}"), "at").unwrap();
        match protect.apply(&place.pool).await {
            Ok(()) => assert!(steady, "{kind} was taken"),
            Err(error) => {
                assert!(!steady, "{kind}: {error}");
                assert!(error.to_string().contains("depends on the session"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn what_begin_admits_it_presents() {
    let place = at_34().await;
    place
        .pool
        .execute("BEGIN; SELECT fencing_present('5'); INSERT INTO files VALUES ('b', 'b'); COMMIT")
        .await
        .unwrap();
    for isolation in ["read committed", "serializable"] {
        let level = format!(
            "ALTER DATABASE {} SET default_transaction_isolation = '{isolation}'",
            place.pool.connect_options().get_database().unwrap()
        );
        place.pool.execute(AssertSqlSafe(level)).await.unwrap();
        let pool = place.other();
        let mut tx = sql::begin(&pool, &resource(), token(35)).await.unwrap();
        tx.execute("UPDATE files SET body = 'a' WHERE path = 'a'").await.unwrap();
        tx.execute("SAVEPOINT one").await.unwrap();
        let error = tx.execute("UPDATE files SET body = 'a' WHERE path = 'b'").await.unwrap_err();
        assert!(
            error.to_string().contains("35 files/a of another resource, high water "),
            "{error}"
        );
        assert!(matches!(AdmitError::from(error), AdmitError::Unpresented(_)));
        tx.execute("ROLLBACK TO SAVEPOINT one; SET LOCAL fencing.token = '99'").await.unwrap();
        let error = tx.execute("UPDATE files SET body = 'a' WHERE path = 'b'").await.unwrap_err();
        assert!(matches!(AdmitError::from(error), AdmitError::Unpresented(_)));
        tx.execute("ROLLBACK TO SAVEPOINT one; SET LOCAL fencing.sequencer = '6 files/b'")
            .await
            .unwrap();
        tx.execute("UPDATE files SET body = 'b' WHERE path = 'b'").await.unwrap();
        tx.commit().await.unwrap();
        // Without SET LOCAL at the end of the transaction nothing is left.
        let error = pool.execute("UPDATE files SET body = 'c' WHERE path = 'b'").await.unwrap_err();
        assert!(matches!(AdmitError::from(error), AdmitError::Unpresented(_)));
    }
    for bad in ["35", "35 ", "@35 files/a", "x files/a"] {
        let mut tx = place.pool.begin().await.unwrap();
        let set = format!("SET LOCAL fencing.sequencer = '{bad}'");
        tx.execute(AssertSqlSafe(set)).await.unwrap();
        tx.execute("UPDATE files SET body = 'bad'").await.unwrap_err();
    }
}
