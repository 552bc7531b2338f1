//! Tables in shadow mode: their triggers warn, in the server's log and to the client.

use sqlx::{PgConnection, PgPool};

use super::place::served;
use super::setup::*;

const TABLE: &str = "CREATE TABLE documents (path text PRIMARY KEY, body text);
    INSERT INTO documents VALUES ('hot', ''), ('a', '')";

/// A table of a service that knows nothing of fencing, in shadow mode.
async fn shadowed() -> Place {
    let place = with(TABLE).await;
    by_path("documents").shadow().apply(&place.pool).await.unwrap();
    place
}

/// Presents this, and writes the row.
async fn write(conn: &mut PgConnection, path: &str, presented: &str) -> Result<(), AdmitError> {
    attempt(conn, &format!("{presented}; UPDATE documents SET body = 'x' WHERE path = '{path}'")).await
}

/// The same in a transaction of its own.
async fn written(pool: &PgPool, path: &str, presented: &str) -> Result<(), AdmitError> {
    let mut tx = pool.begin().await?;
    write(&mut tx, path, presented).await?;
    Ok(tx.commit().await?)
}

fn presents(number: u64, name: &str) -> String {
    format!("SELECT fencing_present('{number} files/{name}')")
}

#[tokio::test]
async fn what_would_be_refused_is_in_the_log_of_the_server() {
    let (_server, pool) = served(&["fsync=off", "logging_collector=on"]).await;
    run(&pool, TABLE).await;
    by_path("documents").shadow().apply(&pool).await.unwrap();
    // A statement that writes many rows of one resource.
    run(&pool, "CREATE TABLE bulk (nr bigint)").await;
    let whole = Protect::whole("bulk", Resource::new("bulk").unwrap()).unwrap();
    whole.shadow().apply(&pool).await.unwrap();
    run(&pool, "INSERT INTO bulk SELECT generate_series(1, 1000)").await;
    let read = "SELECT pg_read_file(pg_current_logfile())";
    let log = async || sqlx::query_scalar::<_, String>(read).fetch_one(&pool).await.unwrap();
    let stale = "token 33 is stale, high water 34, resource files/a (files/a in public.documents)";
    for (presented, expected) in [
        (presents(34, "a"), None),
        (presents(33, "a"), Some(stale)),
        ("SELECT 1".into(), Some("no token presented, high water 34, resource files/a")),
        (presents(40, "b"), Some("the sequencer 40 files/b of another resource")),
        ("TRUNCATE documents".into(), Some("documents is protected against TRUNCATE")),
    ] {
        written(&pool, "a", &presented).await.unwrap();
        let Some(expected) = expected else { continue };
        // The server writes it a little later.
        until("it is in the log", async || log().await.contains(expected)).await;
    }
    let log = log().await;
    assert!(log.contains("WARNING:  fencing, in shadow mode: fencing: token 33"), "{log}");
    assert_eq!(log.matches("high water none, resource bulk").count(), 1, "{log}");
    assert_eq!(sql::highest(&pool, &resource()).await.unwrap(), Some(token(34)));
}

#[tokio::test]
async fn an_unguarded_service_works_on_under_load_and_is_then_guarded() {
    let place = shadowed().await;
    // Neighbouring tokens, in any order.
    let writes = (0..30).map(async |number| {
        written(&place.pool, "hot", &presents(number % 7 + 1, "hot")).await.unwrap();
    });
    join_all(writes).await;
    written(&place.pool, "a", &presents(29, "a")).await.unwrap();

    let tables = sql::protected(&place.pool, None).await.unwrap();
    assert!(tables[0].shadow && !tables[0].is_whole(), "{tables:?}");
    assert!(tables[0].faults.is_empty() && tables[0].is_protected(), "{tables:?}");
    by_path("documents").apply(&place.pool).await.unwrap();
    let tables = sql::protected(&place.pool, None).await.unwrap();
    assert!(!tables[0].shadow && tables[0].is_whole(), "{tables:?}");
    let refused = written(&place.pool, "a", &presents(28, "a")).await;
    assert_eq!(stale(refused).highest, token(29));
    unpresented(written(&place.pool, "a", "SELECT 1").await);
    written(&place.pool, "a", &presents(29, "a")).await.unwrap();
    // And back.
    by_path("documents").shadow().apply(&place.pool).await.unwrap();
    written(&place.pool, "a", "SELECT 1").await.unwrap();
}

/// It gives the lock up, and leaves the session's own bound as it was.
#[tokio::test]
async fn a_writer_in_shadow_mode_does_not_wait_for_a_transaction_that_holds_the_mark() {
    let place = shadowed().await;
    let holder = sql::begin(&place.pool, &resource(), token(34)).await.unwrap();
    for number in [34, 35] {
        let mut tx = place.with(&[("lock_timeout", "77s")]).begin().await.unwrap();
        let presented = presents(number, "a");
        let write = write(&mut tx, "a", &presented);
        let done = tokio::time::timeout(Duration::from_secs(10), write).await;
        done.expect("it waits").unwrap();
        let bound = sqlx::query_scalar::<_, String>("SHOW lock_timeout");
        assert_eq!(bound.fetch_one(&mut *tx).await.unwrap(), "77s");
    }
    holder.commit().await.unwrap();
    assert_eq!(sql::highest(&place.pool, &resource()).await.unwrap(), Some(token(34)));
}

#[tokio::test]
async fn rows_without_a_name_and_children_are_let_through() {
    let tables = "CREATE TABLE files (path text, body text); INSERT INTO files VALUES (NULL, '');
        CREATE TABLE more () INHERITS (files)";
    let place = with(tables).await;
    by_path("files").shadow().apply(&place.pool).await.unwrap();
    run(&place.pool, "UPDATE files SET body = 'x'; INSERT INTO more VALUES ('a', ''); TRUNCATE more").await;
    let found = sql::protected(&place.pool, Some("files")).await.unwrap();
    assert!(found[0].shadow && found[0].faults.is_empty(), "{found:?}");
    found[0].remove(&place.pool).await.unwrap();
}
