//! Marks outside of the writing transaction, the row predicate, equal tokens, the lease.

use std::collections::HashSet;

use fencing::sql::Retry;

use super::*;

#[tokio::test]
async fn marks_say_yes_to_no_token_that_was_passed_on_another_node() {
    let cluster = Cluster::at_33().await;
    let holder = cluster.behind().await;
    SqlMarks::new(cluster.two.clone()).raise(&resource(), token(34)).await.unwrap();
    let marks = SqlMarks::new(cluster.one.clone());
    let raise = async move { marks.raise(&resource(), token(33)).await };
    cluster.caught_up(holder, raise).await.unwrap_err();
    let marks = SqlMarks::new(cluster.one.clone());
    let error = marks.raise(&resource(), token(33)).await.unwrap_err();
    assert!(matches!(error, FenceError::Stale(_)), "{error:?}");
    marks.raise(&resource(), token(34)).await.unwrap();
}

#[tokio::test]
async fn the_row_predicate_holds() {
    let cluster = Cluster::ready().await;
    let update = |number: u64| AssertSqlSafe(format!("UPDATE files SET token = {number} WHERE token <= {number}"));
    let mut old = cluster.one.begin().await.unwrap();
    old.execute(update(33)).await.unwrap();
    let holder = cluster.behind().await;
    cluster.two.execute(update(34)).await.unwrap();
    let committed = cluster.caught_up(holder, old.commit()).await;
    assert!(sql::is_retryable(&committed.unwrap_err()));
    assert_eq!(cluster.one.execute(update(33)).await.unwrap().rows_affected(), 0);
    assert_eq!(cluster.token(&cluster.one).await, 34);
}

/// They are in each other's way on a cluster, and all get through.
#[tokio::test(flavor = "multi_thread")]
async fn equal_tokens_on_both_nodes_all_get_through() {
    let cluster = Cluster::at_33().await;
    let writers = (0..8).map(async |number| {
        let pool = if number % 2 == 0 { &cluster.one } else { &cluster.two };
        for _ in 0..4 {
            let once = || async {
                let mut tx = begin(pool, 33).await?;
                tx.execute("UPDATE files SET token = token + 1").await?;
                Ok::<_, AdmitError>(tx.commit().await?)
            };
            sql::retry(Retry::new().tries(100), once).await.unwrap();
        }
    });
    join_all(writers).await;
    cluster.settled().await;
    assert_eq!(cluster.token(&cluster.one).await, 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_two_leases_have_one_token() {
    let cluster = Cluster::ready().await;
    // Another server, but no failover.
    cluster.two.execute("SET GLOBAL server_id = 2").await.unwrap();
    let holders = (0..6).map(async |number| {
        let pool = if number % 2 == 0 { &cluster.one } else { &cluster.two };
        let lock = lock(pool).with_wait(Duration::from_secs(90)).unwrap();
        let mut tokens = Vec::new();
        for _ in 0..5 {
            let lease = lock.acquire(&resource()).await.unwrap();
            tokens.push(lease.token().get());
            lease.release().await.unwrap();
        }
        assert!(tokens.is_sorted(), "{tokens:?}");
        tokens
    });
    let all: HashSet<_> = join_all(holders).await.into_iter().flatten().collect();
    assert_eq!(all.len(), 30);
    assert_eq!(number(&cluster.one, "SELECT token FROM fencing_floor").await, 0);
}

/// As a dump has it of a server that knew nothing of Galera.
#[tokio::test]
async fn a_cluster_where_the_fence_would_not_hold_is_refused() {
    let cluster = Cluster::ready().await;
    let count = "CREATE OR REPLACE PROCEDURE fencing_count(IN the_resource VARBINARY(1024)) BEGIN END";
    run(&cluster.one, count).await;
    let error = sql::migrate(&cluster.one).await.unwrap_err();
    assert!(matches!(error, MigrateError::Unguarded(_)), "{error:?}");
    cluster.one.execute("DELETE FROM _fencing_migrations").await.unwrap();
    sql::migrate(&cluster.one).await.unwrap();
    cluster.settled().await;
    sql::migrate(&cluster.two).await.unwrap();
}

/// A first contact that has looked at the floor, and a prune on the other node.
#[tokio::test]
async fn a_floor_that_rises_on_another_node_ends_who_is_about_to_create_a_mark() {
    let cluster = Cluster::ready().await;
    let mut old = cluster.two.begin().await.unwrap();
    // As in `fencing_hold`.
    let look = "SELECT token FROM fencing_floor LOCK IN SHARE MODE";
    run(&mut *old, look).await;
    raise(&cluster.one, &resource(), 34).await;
    let pruned = Prune::older_than(Duration::ZERO).run(&cluster.one).await.unwrap();
    assert_eq!((pruned.marks, pruned.floor), (1, Some(token(34))));
    cluster.settled().await;
    let write = "INSERT INTO fencing_marks (resource, token) VALUES ('files/a', 33)";
    let written = attempt(&mut *old, write).await;
    retryable(match written {
        Ok(()) => old.commit().await.map_err(AdmitError::from),
        refused => refused,
    });
    for pool in [&cluster.one, &cluster.two] {
        // What the other node has committed may abort it.
        let again = async |number| sql::retry(Retry::new(), || begin(pool, number)).await;
        stale(again(34).await);
        again(35).await.unwrap().rollback().await.unwrap();
    }
}
