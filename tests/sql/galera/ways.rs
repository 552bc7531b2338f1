//! 33 has begun on one node when 34 is admitted on another, reads, and commits. What 33 writes must not land then.

use support::process::PATIENCE;
use tokio::time::Instant;

use super::*;
use crate::mysql::suite::writers::WAYS;

/// What came of the commit of 33, and what the file holds in the end.
async fn play(way: Way) -> (sqlx::Result<()>, i64) {
    let cluster = Cluster::at_33().await;
    if way == Way::Present {
        Protect::rows("files", "path").unwrap().apply(&cluster.one).await.unwrap();
        cluster.settled().await;
    }
    let old = Writer::new(way).open(&cluster.one, 33).await.unwrap();

    let holder = cluster.behind().await;
    let mut new = begin(&cluster.two, 34).await.unwrap();
    assert_eq!(number(&mut *new, "SELECT token FROM files").await, 0);
    new.commit().await.unwrap();

    let committed = cluster.caught_up(holder, old.commit()).await;
    stale(begin(&cluster.one, 33).await);
    let (one, two) = (cluster.token(&cluster.one).await, cluster.token(&cluster.two).await);
    assert_eq!(one, two);
    (committed, one)
}

#[tokio::test]
async fn the_commit_of_a_stale_token_is_refused() {
    for way in WAYS {
        let (committed, left) = play(way).await;
        assert_eq!(left, 0, "{way:?}: 33 wrote after 34 had read");
        let error = committed.unwrap_err();
        assert!(sql::is_retryable(&error), "{way:?}: {error:?}");
    }
}

#[tokio::test]
async fn without_the_guard_it_lands() {
    let (committed, left) = play(Way::Unfenced).await;
    committed.unwrap();
    assert_eq!(left, 33, "nothing was tested");
}

/// The node has not applied the newer mark yet, or neither that nor that it was pruned.
#[tokio::test]
async fn a_stale_token_that_begins_on_a_node_that_is_behind_is_refused_at_its_commit() {
    // A raise of its own, as at a first contact, would wait for the node: `admit` raises in the transaction that writes.
    for (way, pruned) in [(Way::Begin, false), (Way::Admit, true)] {
        let cluster = if pruned { Cluster::ready().await } else { Cluster::at_33().await };
        let holder = cluster.behind().await;
        raise(&cluster.two, &resource(), 34).await;
        if pruned {
            let pruned = Prune::older_than(Duration::ZERO).run(&cluster.two).await.unwrap();
            assert_eq!(pruned.floor, Some(token(34)));
        }
        let old = Writer::new(way).open(&cluster.one, 33).await.unwrap();
        let committed = cluster.caught_up(holder, old.commit()).await;
        assert!(sql::is_retryable(&committed.unwrap_err()));
        for pool in [&cluster.one, &cluster.two] {
            assert_eq!(cluster.token(pool).await, 0, "{way:?}");
        }
        stale(begin(&cluster.one, 33).await);
    }
}

/// A transaction that the server has ended without an error: it lost that while it prepared a SELECT (docs/reference/sql.md,
/// Clusters). Its token is stale.
async fn ended_without_error(cluster: &Cluster) -> (u64, Transaction<'static, MySql>) {
    let end = Instant::now() + PATIENCE;
    for number in (33..).take_while(|_| Instant::now() < end) {
        cluster.settled().await;
        let Ok(mut old) = begin(&cluster.one, number).await else { continue };
        let two = cluster.two.clone();
        let newer = tokio::spawn(async move { raise(&two, &resource(), number + 1).await });
        let lost = loop {
            if sqlx::query("SELECT 1").persistent(false).execute(&mut *old).await.is_err() {
                break false;
            }
            if newer.is_finished() {
                cluster.settled().await;
                let open = sqlx::raw_sql("SELECT @@in_transaction").fetch_one(&mut *old).await;
                break open.is_ok_and(|open| open.get::<u64, _>(0) == 0);
            }
        };
        newer.await.unwrap();
        if lost {
            println!("an error was lost at the token {number}");
            return (number, old);
        }
    }
    panic!("no error was lost: does docs/reference/sql.md still hold?");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_server_loses_an_error_protected_tables_refuse() {
    let cluster = Cluster::at_33().await;
    Protect::rows("files", "path").unwrap().apply(&cluster.one).await.unwrap();
    let (token, mut old) = ended_without_error(&cluster).await;
    sql::present(&mut old, &own(token)).await.unwrap();
    let written = write(&mut old, own(token).token, "").await;
    stale(written.map_err(AdmitError::from));
    run(&mut *old, "UPDATE later SET body = -1").await;
    old.rollback().await.unwrap();
    let body = number(&cluster.one, "SELECT body FROM later").await;
    assert_eq!(body, -1, "a table that is not protected is safe: docs/reference/sql.md need not say more");
}
