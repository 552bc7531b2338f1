//! Connections to one file, or to memory: who is in whose way, and what a session is set to.

use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteJournalMode, SqlitePoolOptions};

use super::setup::*;

#[tokio::test]
async fn of_two_readers_that_would_write_one_is_in_conflict() {
    for journal in [SqliteJournalMode::Wal, SqliteJournalMode::Delete, SqliteJournalMode::Truncate] {
        let place = Place::with(journal).await;
        sql::migrate(&place.pool).await.unwrap();
        let mut one = place.pool.begin().await.unwrap();
        let mut two = place.pool.begin().await.unwrap();
        for tx in [&mut one, &mut two] {
            number(&mut **tx, "SELECT count(*) FROM fencing_marks").await;
        }
        sql::admit(&mut one, &resource(), token(33)).await.unwrap();
        retryable(sql::admit(&mut two, &resource(), token(34)).await);
        two.rollback().await.unwrap();
        one.commit().await.unwrap();
        stale(begin(&place.pool, 32).await);
    }
}

#[tokio::test]
async fn a_database_in_memory_has_a_fence_too() {
    let pool = SqlitePoolOptions::new().max_connections(4).connect("sqlite::memory:").await;
    let pool = pool.unwrap();
    sql::migrate(&pool).await.unwrap();
    sql::migrate(&pool).await.unwrap();
    raise(&pool, &resource(), 34).await;
    stale(begin(&pool, 33).await);
    assert_eq!(sql::highest(&pool, &resource()).await.unwrap(), Some(token(34)));
}

/// Eight that write, and none that would wait for the file.
async fn eight_write(pool: &SqlitePool) -> Result<(), AdmitError> {
    let writers = (0..8).map(async |writer| {
        for _ in 0..20 {
            let mut tx = sql::begin(pool, &named(&format!("files/{writer}")), token(34)).await?;
            attempt(&mut *tx, "INSERT INTO log VALUES (1)").await?;
            tokio::task::yield_now().await;
            tx.commit().await?;
        }
        Ok(())
    });
    join_all(writers).await.into_iter().collect()
}

#[tokio::test]
async fn in_a_pool_of_one_writer_nobody_is_in_anothers_way() {
    let place = with("CREATE TABLE log (writer INTEGER)").await;
    eight_write(&sql::single_writer((*place.impatient().connect_options()).clone())).await.unwrap();
    assert_eq!(number(&place.pool, "SELECT count(*) FROM log").await, 160);
    // The same writers with a connection each.
    eight_write(&place.impatient()).await.unwrap_err();
}

/// It writes before it reads: its snapshot is never older than what it waited for.
#[tokio::test]
async fn a_look_in_shadow_mode_waits_as_the_write_alone_would() {
    let place = migrated().await;
    let holder = begin(&place.pool, 34).await.unwrap();
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

/// Some services switch it off, so that a file from elsewhere can call no function that has effects.
#[tokio::test]
async fn a_session_that_trusts_no_schema_writes_behind_the_fence() {
    let place = Place::empty().await;
    let options = (*place.pool.connect_options()).clone().pragma("trusted_schema", "OFF");
    let pool = SqlitePoolOptions::new().connect_lazy_with(options);
    sql::migrate(&pool).await.unwrap();
    run(&pool, "CREATE TABLE documents (path TEXT, body TEXT)").await;
    sql::Protect::rows("documents", "path").unwrap().apply(&pool).await.unwrap();
    let write = async |token| attempt(&pool, &place::insert(token, "a", "x")).await;
    write(Some("34")).await.unwrap();
    stale(write(Some("33")).await);
    unpresented(write(None).await);
}
