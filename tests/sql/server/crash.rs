//! A server or a session that dies.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sqlx::pool::PoolOptions;

use super::Server;
use super::place::{pool, served};
use super::setup::*;
use super::writers::{Way, Writer};

fn is_no_refusal(result: Result<(), AdmitError>) {
    assert!(matches!(result, Err(AdmitError::Database(_))), "{result:?}");
}

#[tokio::test]
async fn a_server_killed_in_mid_transaction_is_no_refusal() {
    let (mut server, pool) = served(&[]).await;
    raise(&pool, &resource(), 33).await;
    let mut both = [pool.begin().await.unwrap(), pool.begin().await.unwrap()];
    sql::admit(&mut both[0], &resource(), token(34)).await.unwrap();
    server.kill();
    for mut tx in both {
        is_no_refusal(sql::admit(&mut tx, &resource(), token(34)).await);
    }
    server.restart();
    // What was committed is there, what was not is not.
    assert_eq!(sql::highest(&pool, &resource()).await.unwrap(), Some(token(33)));
    stale(begin(&pool, 32).await);
    begin(&pool, 34).await.unwrap();
}

#[tokio::test]
async fn a_session_that_is_killed_is_no_refusal() {
    let place = migrated().await;
    let mut tx = admitted(&place.pool, 34).await;
    place.end_sessions().await;
    is_no_refusal(sql::admit(&mut tx, &resource(), token(34)).await);
    assert!(tx.commit().await.is_err());
    begin(&place.pool, 33).await.unwrap();
}

/// The same request may succeed: nothing was wrong with it. But on MySQL a deadlock ends a transaction, and what comes
/// after that is stored at once: nobody can say whether that has happened.
#[tokio::test]
async fn a_session_that_ends_before_its_commit_has_stored_nothing_or_leaves_it_in_doubt() {
    let place = migrated().await;
    let tx = Transactions::begin(&place.pool, &[own(33)]).await.unwrap();
    place.end_sessions().await;
    let error = <Pool<Db> as Transactions>::commit(tx).await.unwrap_err();
    let in_doubt = Db::NAME == "MySQL";
    match &error {
        CommitError::InDoubt(_) => assert!(in_doubt, "{error}"),
        CommitError::RolledBack(cause) => {
            let cause = cause.downcast_ref::<io::Error>().map(io::Error::kind);
            assert!(!in_doubt && cause == Some(io::ErrorKind::ConnectionAborted), "{error}");
        }
        _ => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_server_killed_while_many_commit_forgets_no_mark() {
    let mut server = Server::start();
    let options = server.database().await;
    let pool = pool(options.clone());
    sql::migrate(&pool).await.unwrap();
    run(&pool, FILES).await;
    // It does not look for a dead server for long.
    let writing = PoolOptions::<Db>::new().acquire_timeout(Duration::from_secs(5));
    let writing = writing.connect_lazy_with(options);
    for round in 1..=2_u32 {
        let (next, done) = (AtomicU64::new(u64::from(round) * 1_000_000), AtomicU64::new(0));
        let killed = AtomicBool::new(false);
        let until_it_dies = (0..6).map(async |_| {
            loop {
                let number = next.fetch_add(1, Ordering::SeqCst);
                match Writer::new(Way::Begin).write(&writing, number).await {
                    Ok(()) => drop(done.fetch_max(number, Ordering::SeqCst)),
                    Err(AdmitError::Database(_)) if killed.load(Ordering::SeqCst) => return,
                    Err(AdmitError::Database(_) | AdmitError::Stale(_) | AdmitError::Retryable(_)) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        });
        let killing = async {
            until("one has committed", async || done.load(Ordering::SeqCst) > 0).await;
            tokio::time::sleep(Duration::from_millis(200) * round).await;
            killed.store(true, Ordering::SeqCst);
            server.kill();
        };
        tokio::join!(join_all(until_it_dies), killing);
        server.restart();
        let mark = sql::highest(&pool, &resource()).await.unwrap().unwrap();
        let file = number(&pool, "SELECT token FROM files").await;
        assert!(i64::from(mark) >= file, "a write without its mark");
        assert!(mark.get() >= done.into_inner(), "what was said to be done is lost");
        stale(begin(&pool, mark.get() - 1).await);
    }
}
