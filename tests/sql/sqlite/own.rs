//! What is SQLite's own.

use fencing::Resource;
use fencing::sql::{self, AdmitError};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteJournalMode, SqlitePoolOptions};

use super::place::{self, Place};
use super::setup::{migrated, raise, run, with};
use crate::common::{resource, retryable, stale, token};

#[tokio::test]
async fn a_deferred_transaction_with_an_old_snapshot_is_a_conflict() {
    let place = migrated().await;
    let mut old = place.pool.begin().await.unwrap();
    let count =
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM fencing_marks WHERE resource <> ''");
    assert_eq!(count.fetch_one(&mut *old).await.unwrap(), 0);
    let new = sql::begin(&place.pool, &resource(), token(34)).await.unwrap();
    // BUSY, for the writer is at work; BUSY_SNAPSHOT, for it has written.
    retryable(sql::admit(&mut old, &resource(), token(35)).await);
    new.commit().await.unwrap();
    for number in [33, 34, 35] {
        retryable(sql::admit(&mut old, &resource(), token(number)).await);
    }
    old.rollback().await.unwrap();
    stale(sql::begin(&place.pool, &resource(), token(33)).await);
}

#[tokio::test]
async fn a_rollback_journal_keeps_readers_that_would_write_apart() {
    for journal in [SqliteJournalMode::Delete, SqliteJournalMode::Truncate] {
        let place = Place::with(journal).await;
        sql::migrate(&place.pool).await.unwrap();
        let mut one = place.pool.begin().await.unwrap();
        let mut two = place.pool.begin().await.unwrap();
        for tx in [&mut one, &mut two] {
            let count = sqlx::query_scalar::<_, i64>(
                "SELECT count(*) FROM fencing_marks WHERE resource <> ''",
            );
            assert_eq!(count.fetch_one(&mut **tx).await.unwrap(), 0);
        }
        sql::admit(&mut one, &resource(), token(33)).await.unwrap();
        retryable(sql::admit(&mut two, &resource(), token(34)).await);
        two.rollback().await.unwrap();
        one.commit().await.unwrap();
        stale(sql::begin(&place.pool, &resource(), token(32)).await);
    }
}

#[tokio::test]
async fn a_database_in_memory_has_a_fence_too() {
    let pool = SqlitePoolOptions::new().max_connections(4).connect("sqlite::memory:").await;
    let pool = pool.unwrap();
    sql::migrate(&pool).await.unwrap();
    sql::migrate(&pool).await.unwrap();
    raise(&pool, &resource(), 34).await;
    stale(sql::begin(&pool, &resource(), token(33)).await);
    assert_eq!(sql::highest(&pool, &resource()).await.unwrap(), Some(token(34)));
}

#[tokio::test]
async fn a_database_that_may_not_be_written_admits_nobody() {
    let place = migrated().await;
    let mut conn = place.pool.acquire().await.unwrap();
    run(&mut *conn, "PRAGMA query_only = ON").await;
    let mut tx = sqlx::Connection::begin(&mut *conn).await.unwrap();
    let error = sql::admit(&mut tx, &resource(), token(33)).await.unwrap_err();
    assert!(matches!(error, AdmitError::Database(_)), "{error:?}");
}

/// Eight that write, and none that would wait for the file.
async fn eight_write(pool: &SqlitePool) -> Vec<Result<(), AdmitError>> {
    let writers = (0..8_u32).map(|writer| {
        let pool = pool.clone();
        tokio::spawn(async move {
            for _ in 0..20 {
                let name = Resource::new(format!("files/{writer}")).unwrap();
                let mut tx = sql::begin(&pool, &name, token(34)).await?;
                sqlx::query("INSERT INTO log VALUES (?)").bind(writer).execute(&mut *tx).await?;
                tokio::task::yield_now().await;
                tx.commit().await?;
            }
            Ok(())
        })
    });
    let mut done = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        done.push(writer.await.unwrap());
    }
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_a_pool_of_one_writer_nobody_is_in_anothers_way() {
    let place = with("CREATE TABLE log (writer INTEGER)").await;
    let options = (*place.impatient().connect_options()).clone();
    for done in eight_write(&sql::single_writer(options.clone())).await {
        done.unwrap();
    }
    let written = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM log");
    assert_eq!(written.fetch_one(&place.pool).await.unwrap(), 160);
    // The same writers with a connection each.
    assert!(eight_write(&place.impatient()).await.iter().any(Result::is_err));
}

/// It writes before it reads: its snapshot is never older than what it waited for.
#[tokio::test]
async fn a_look_in_shadow_mode_waits_as_the_write_alone_would() {
    let place = migrated().await;
    let holder = sql::begin(&place.pool, &resource(), token(34)).await.unwrap();
    let pool = place.patient();
    let look = tokio::spawn(async move {
        let mut tx = pool.begin().await.unwrap();
        let said = sql::admit_in_shadow(&mut tx, &resource(), Some(token(33))).await?;
        tx.commit().await?;
        Ok::<_, AdmitError>(said)
    });
    // Long enough for it to have begun; if it has not, there is nothing to wait for.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    holder.commit().await.unwrap();
    let said = look.await.unwrap().unwrap().unwrap();
    assert!(said.contains("is stale, high water 34"), "{said}");
}

/// A dump has the marks first, and then the floor.
#[tokio::test]
async fn a_floor_that_is_inserted_raises_the_one_that_is_there() {
    let place = with(
        "INSERT INTO fencing_marks VALUES ('low', 5, 1), ('s', 500, 1);
        INSERT INTO fencing_floor VALUES (1, 10)",
    )
    .await;
    let floor = async || {
        let floor = sqlx::query_scalar::<_, i64>("SELECT token FROM fencing_floor");
        floor.fetch_all(&place.pool).await.unwrap()
    };
    assert_eq!(floor().await, [10]);
    for (way, lower) in [("", 9), (" OR REPLACE", 0), (" OR IGNORE", 9), (" OR REPLACE", 9)] {
        let insert = format!("INSERT{way} INTO fencing_floor VALUES (1, {lower})");
        let insert = sqlx::raw_sql(sqlx::AssertSqlSafe(insert)).execute(&place.pool).await;
        let error = insert.unwrap_err().to_string();
        assert!(error.contains("a mark is never lowered"), "{way}: {error}");
    }
    run(&place.pool, "INSERT OR REPLACE INTO fencing_floor VALUES (1, 11)").await;
    assert_eq!(floor().await, [11]);
    for (name, number) in [("r", 5), ("r", 11), ("low", 4), ("s", 499)] {
        let name = Resource::new(name).unwrap();
        stale(sql::begin(&place.pool, &name, token(number)).await);
    }
    for (name, number) in [("low", 5), ("s", 500), ("r", 12)] {
        let name = Resource::new(name).unwrap();
        raise(&place.pool, &name, number).await;
    }
}

/// Some services switch it off, so that a file from elsewhere can call no function that has effects.
#[tokio::test]
async fn a_session_that_trusts_no_schema_writes_behind_the_fence() {
    let place = Place::empty().await;
    let options = (*place.pool.connect_options()).clone().pragma("trusted_schema", "OFF");
    let pool = SqlitePoolOptions::new().connect_lazy_with(options);
    sql::migrate(&pool).await.unwrap();
    run(&pool, "CREATE TABLE documents (path TEXT, body TEXT)").await;
    sql::Protect::rows("documents", "path").unwrap().apply(&pool).await.unwrap();
    let write = async |token: Option<&str>| {
        let insert = sqlx::AssertSqlSafe(place::insert(token, "a", "x"));
        sqlx::raw_sql(insert).execute(&pool).await.map_err(AdmitError::from)
    };
    write(Some("34")).await.unwrap();
    stale(write(Some("33")).await);
    assert!(matches!(write(None).await, Err(AdmitError::Unpresented(_))));
}
