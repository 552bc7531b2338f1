//! Marks outside of the writing transaction, the row predicate, equal tokens, the lease.

use std::collections::HashSet;

use fencing::fence::{FenceError, Marks};
use fencing::lock::sql::SqlLock;
use fencing::sql::{AdmitError, MigrateError, Prune, Retry, SqlMarks};

use super::*;

#[tokio::test]
async fn marks_say_yes_to_no_token_that_was_passed_on_another_node() {
    let cluster = Cluster::at_33().await;
    let holder = cluster.behind().await;
    SqlMarks::new(cluster.two.clone()).raise(&resource(), token(34)).await.unwrap();
    let marks = SqlMarks::new(cluster.one.clone());
    let raise = tokio::spawn(async move { marks.raise(&resource(), token(33)).await });
    reach_the_group().await;
    go_on(holder).await;
    raise.await.unwrap().unwrap_err();
    cluster.settled().await;
    let marks = SqlMarks::new(cluster.one.clone());
    let error = marks.raise(&resource(), token(33)).await.unwrap_err();
    assert!(matches!(error, FenceError::Stale(_)), "{error:?}");
    marks.raise(&resource(), token(34)).await.unwrap();
}

#[tokio::test]
async fn the_row_predicate_holds() {
    let cluster = Cluster::ready().await;
    cluster.one.execute("ALTER TABLE files ADD COLUMN fence_token BIGINT DEFAULT 0").await.unwrap();
    cluster.settled().await;
    let update = |number: u64| {
        AssertSqlSafe(format!(
            "UPDATE files SET body = {number}, fence_token = {number}
            WHERE path = 'a' AND fence_token <= {number}"
        ))
    };
    let mut old = cluster.one.begin().await.unwrap();
    sqlx::raw_sql(update(33)).execute(&mut *old).await.unwrap();
    let holder = cluster.behind().await;
    cluster.two.execute(update(34)).await.unwrap();
    let old = tokio::spawn(old.commit());
    reach_the_group().await;
    go_on(holder).await;
    assert!(AdmitError::from(old.await.unwrap().unwrap_err()).is_retryable());
    cluster.settled().await;
    assert_eq!(cluster.one.execute(update(33)).await.unwrap().rows_affected(), 0);
    assert_eq!(cluster.body(&cluster.one).await, 34);
}

/// They are in each other's way on a cluster, and all get through.
#[tokio::test(flavor = "multi_thread")]
async fn equal_tokens_on_both_nodes_all_get_through() {
    let cluster = Cluster::at_33().await;
    let writers = (0..8).map(|number| {
        let pool = if number % 2 == 0 { cluster.one.clone() } else { cluster.two.clone() };
        tokio::spawn(async move {
            for _ in 0..4 {
                let attempt = || async {
                    let mut tx = sql::begin(&pool, &resource(), token(33)).await?;
                    sqlx::raw_sql("UPDATE files SET body = body + 1").execute(&mut *tx).await?;
                    tx.commit().await?;
                    Ok::<_, AdmitError>(())
                };
                sql::retry(Retry::new().tries(100), attempt).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    cluster.settled().await;
    assert_eq!(cluster.body(&cluster.one).await, 32);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_two_leases_have_one_token() {
    let cluster = Cluster::ready().await;
    // Another server, but no failover.
    cluster.two.execute("SET GLOBAL server_id = 2").await.unwrap();
    let holders = (0..6).map(|number| {
        let pool = if number % 2 == 0 { &cluster.one } else { &cluster.two };
        let lock = SqlLock::builder(pool.clone()).wait(Duration::from_secs(60)).build().unwrap();
        tokio::spawn(async move {
            let mut tokens = Vec::new();
            for _ in 0..5 {
                let lease = lock.acquire(&resource()).await.unwrap();
                tokens.push(lease.token().get());
                lease.release().await.unwrap();
            }
            assert!(tokens.is_sorted(), "{tokens:?}");
            tokens
        })
    });
    let mut all = HashSet::new();
    for holder in holders.collect::<Vec<_>>() {
        all.extend(holder.await.unwrap());
    }
    assert_eq!(all.len(), 30);
    let floor = sqlx::query_scalar::<_, i64>("SELECT token FROM fencing_floor");
    assert_eq!(floor.fetch_one(&cluster.one).await.unwrap(), 0);
}

/// As a dump has it of a server that knew nothing of Galera.
#[tokio::test]
async fn a_cluster_where_the_fence_would_not_hold_is_refused() {
    let cluster = Cluster::ready().await;
    for statement in [
        "DROP PROCEDURE fencing_count",
        "CREATE PROCEDURE fencing_count(IN the_resource VARBINARY(1024)) BEGIN END",
    ] {
        sqlx::raw_sql(statement).execute(&cluster.one).await.unwrap();
    }
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
    sqlx::raw_sql(look).execute(&mut *old).await.unwrap();
    sql::begin(&cluster.one, &resource(), token(34)).await.unwrap().commit().await.unwrap();
    let pruned = Prune::older_than(Duration::ZERO).run(&cluster.one).await.unwrap();
    assert_eq!((pruned.marks, pruned.floor), (1, Some(token(34))));
    cluster.settled().await;
    let write = "INSERT INTO fencing_marks (resource, token) VALUES ('files/a', 33)";
    let error = match sqlx::raw_sql(write).execute(&mut *old).await {
        Ok(_) => old.commit().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(AdmitError::from(error).is_retryable());
    for pool in [&cluster.one, &cluster.two] {
        // What the other node has committed may abort it.
        let begin = async |number| {
            let resource = resource();
            sql::retry(Retry::new(), || sql::begin(pool, &resource, token(number))).await
        };
        let error = begin(34).await.unwrap_err();
        assert!(matches!(error, AdmitError::Stale(_)), "{error:?}");
        begin(35).await.unwrap().rollback().await.unwrap();
    }
}

/// A node that is behind knows neither the newer mark nor that it was pruned.
#[tokio::test]
async fn a_node_that_is_behind_a_prune_lets_nothing_stale_in() {
    let cluster = Cluster::ready().await;
    let holder = cluster.behind().await;
    sql::begin(&cluster.two, &resource(), token(34)).await.unwrap().commit().await.unwrap();
    let pruned = Prune::older_than(Duration::ZERO).run(&cluster.two).await.unwrap();
    assert_eq!(pruned.floor, Some(token(34)));
    // In the transaction that writes: a raise of its own would wait for the node.
    let mut old = cluster.one.begin().await.unwrap();
    sql::admit(&mut old, &resource(), token(33)).await.unwrap();
    old.execute(write(33)).await.unwrap();
    let old = tokio::spawn(old.commit());
    reach_the_group().await;
    go_on(holder).await;
    assert!(AdmitError::from(old.await.unwrap().unwrap_err()).is_retryable());
    cluster.settled().await;
    assert_eq!(cluster.body(&cluster.one).await, 0);
    let error = sql::begin(&cluster.one, &resource(), token(33)).await.unwrap_err();
    assert!(matches!(error, AdmitError::Stale(_)), "{error:?}");
}
