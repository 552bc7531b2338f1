//! A database that is one file, or in memory: one writer at a time, a full disk, a folder that is not there.

use fencing::lock::Operator;
use sqlx::Connection;
use sqlx::sqlite::{SqliteJournalMode, SqlitePoolOptions};

use super::place::Place;
use super::suite::{ready, with_budget};
use crate::common::*;

#[tokio::test]
async fn what_could_not_be_committed_was_not_granted() {
    let place = Place::with(SqliteJournalMode::Delete).await;
    sql::migrate(&place.pool).await.unwrap();
    let patient = with_budget(&place.impatient(), Duration::from_secs(20));
    let lease = patient.acquire(&resource()).await.unwrap();
    release(lease).await;
    // A reader keeps its snapshot: without a WAL nobody can commit meanwhile.
    let mut conn = place.pool.acquire().await.unwrap();
    let mut reader = conn.begin().await.unwrap();
    let token = "SELECT token FROM fencing_leases";
    let token = || sqlx::query_scalar::<_, i64>(token);
    assert_eq!(token().fetch_one(&mut *reader).await.unwrap(), 1);
    let brief = with_budget(&place.impatient(), Duration::from_millis(300));
    fault(brief.try_acquire(&resource()).await);
    reader.rollback().await.unwrap();
    drop(conn);
    // What timed out may have run since, and was taken back.
    assert!(patient.acquire(&resource()).await.unwrap().token().get() >= 2);
}

#[tokio::test]
async fn a_database_in_memory_has_one_connection() {
    let pool = SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
    let pool = pool.connect("sqlite::memory:").await.unwrap();
    sql::migrate(&pool).await.unwrap();
    let lock = with_budget(&pool, Duration::from_secs(10));
    let lease = lock.acquire(&resource()).await.unwrap();
    held(lock.try_acquire(&resource()).await);
    let tx = sql::begin(&pool, &resource(), lease.token()).await.unwrap();
    // The one connection is in use: not to be had is not held.
    let brief = with_budget(&pool, Duration::from_secs(2));
    let cause = fault(brief.try_acquire(&resource()).await);
    assert!(matches!(cause, Fault::Unreachable(_)), "{cause:?}");
    tx.commit().await.unwrap();
    release(lease).await;
    assert_eq!(lock.acquire(&resource()).await.unwrap().token().get(), 2);
    lock.settle().await;
    let lease = lock.acquire(&resource()).await.unwrap();
    let found = pool.leases_of(&resource()).await.unwrap().remove(0);
    assert!(pool.force_release(&found).await.unwrap());
    // Nothing has closed the connection, and the database with it.
    assert_eq!(sql::highest(&pool, &resource()).await.unwrap().map(Token::get), Some(1));
    assert!(lock.acquire(&resource()).await.unwrap().token() > lease.token());
}

#[tokio::test]
async fn a_full_disk_is_no_refusal() {
    let place = ready().await;
    let pool = place.impatient();
    let lock = with_budget(&pool, Duration::from_secs(20));
    lock.acquire(&resource()).await.unwrap().release().await.unwrap();
    sqlx::query("PRAGMA max_page_count = 1").execute(&pool).await.unwrap();
    let cause = loop {
        let long = fastrand::u128(..).to_string().repeat(6);
        match lock.try_acquire(&named(&long)).await {
            Ok(lease) => drop(lease.release().await),
            refused => break fault(refused),
        }
    };
    assert!(matches!(&cause, Fault::NotNow(why) if why.contains("full")), "{cause:?}");
}

#[tokio::test]
async fn settle_waits_for_a_release_that_is_tried_again() {
    let place = ready().await;
    let lock = with_budget(&place.impatient(), Duration::from_secs(2));
    let lease = lock.acquire(&resource()).await.unwrap();
    let writer = place.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    lease.release().await.unwrap_err();
    assert!(timeout(Duration::from_secs(1), lock.settle()).await.is_err());
    writer.rollback().await.unwrap();
    lock.settle().await;
    drop(with_budget(&place.pool, Duration::from_secs(20)).try_acquire(&resource()).await.unwrap());
}

/// Each change is one statement, which a thread of the driver carries out to its end.
#[tokio::test]
async fn a_client_whose_runtime_is_blocked_keeps_nobody_from_locking() {
    let place = ready().await;
    let other = with_budget(&place.pool, Duration::from_secs(20));
    for pauses in 0..20 {
        let pool = place.other();
        let (blocks, blocked) = tokio::sync::oneshot::channel();
        let (go_on, waits) = std::sync::mpsc::channel::<()>();
        let client = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let lock = with_budget(&pool, Duration::from_secs(20));
                let name = named("of the blocked one");
                let attempt = tokio::spawn(async move { lock.try_acquire(&name).await });
                for _ in 0..pauses {
                    sleep(Duration::from_millis(1)).await;
                }
                blocks.send(()).unwrap();
                // Not at an await point.
                let _ = waits.recv();
                drop(attempt);
            });
        });
        blocked.await.unwrap();
        let lease = other.acquire(&resource()).await.unwrap();
        release(lease).await;
        drop(go_on);
        client.join().unwrap();
    }
}

/// As where a disk is not mounted.
#[tokio::test]
async fn a_file_that_must_be_there_is_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leases.db");
    let url = format!("sqlite:{}", file.display());
    fencing::lock::connect(&format!("{url}?mode=rw")).await.unwrap_err();
    assert!(!file.exists());
    drop(fencing::lock::connect(&url).await.unwrap());
    drop(fencing::lock::connect(&format!("{url}?mode=rw")).await.unwrap());
}
