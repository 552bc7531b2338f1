//! 33 has begun on one node when 34 is admitted on the other one, reads, and commits. What 33
//! writes must not land after that.

use fencing::sql::{AdmitError, Protect};
use sqlx::{MySql, Transaction};

use super::*;
use crate::common::stale;

/// How a writer is guarded.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    None,
    Begin,
    Folded,
    Admit,
    Protected,
    Procedure,
}

async fn begun(pool: &MySqlPool, way: Way, number: u64) -> Transaction<'static, MySql> {
    if way == Way::Begin {
        return sql::begin(pool, &resource(), token(number)).await.unwrap();
    }
    if way == Way::Folded {
        let write = sql::guarded("UPDATE files SET body = body + 1", "path = 'a'");
        return write.begin(pool, &resource(), token(number)).await.unwrap().0;
    }
    let mut tx = pool.begin().await.unwrap();
    match way {
        Way::Admit => sql::admit(&mut tx, &resource(), token(number)).await.unwrap(),
        Way::Protected => sql::present(&mut tx, token(number)).await.unwrap(),
        Way::Procedure => {
            let call = AssertSqlSafe(format!("CALL fencing_admit('files/a', {number})"));
            sqlx::raw_sql(call).execute(&mut *tx).await.unwrap();
        }
        Way::None | Way::Begin | Way::Folded => {}
    }
    tx
}

/// What came of the commit of 33, and what the file holds in the end.
async fn play(way: Way) -> (sqlx::Result<()>, i64) {
    let cluster = Cluster::at_33().await;
    if way == Way::Protected {
        let protect = Protect::rows("files", "path").unwrap().prefix("files/");
        protect.unwrap().apply(&cluster.one).await.unwrap();
        cluster.settled().await;
    }
    let mut old = begun(&cluster.one, way, 33).await;
    sqlx::raw_sql(write(33)).execute(&mut *old).await.unwrap();

    let holder = cluster.behind().await;
    let mut new = sql::begin(&cluster.two, &resource(), token(34)).await.unwrap();
    let read = sqlx::query_scalar::<_, i64>("SELECT body FROM files").fetch_one(&mut *new).await;
    assert_eq!(read.unwrap(), 0);
    new.commit().await.unwrap();

    let old = tokio::spawn(old.commit());
    reach_the_group().await;
    go_on(holder).await;
    let committed = old.await.unwrap();
    cluster.settled().await;
    stale(sql::begin(&cluster.one, &resource(), token(33)).await);
    let (one, two) = (cluster.body(&cluster.one).await, cluster.body(&cluster.two).await);
    assert_eq!(one, two);
    (committed, one)
}

#[tokio::test]
async fn the_commit_of_a_stale_token_is_refused() {
    for way in [Way::Begin, Way::Folded, Way::Admit, Way::Procedure, Way::Protected] {
        let (committed, body) = play(way).await;
        assert_eq!(body, 0, "{way:?}: 33 wrote after 34 had read");
        let error = AdmitError::from(committed.unwrap_err());
        assert!(error.is_retryable(), "{way:?}: {error:?}");
    }
}

#[tokio::test]
async fn without_the_guard_it_lands() {
    let (committed, body) = play(Way::None).await;
    committed.unwrap();
    assert_eq!(body, 33, "nothing was tested");
}

/// A new token whose mark the other node has not applied yet.
#[tokio::test]
async fn a_stale_token_that_begins_on_a_node_that_is_behind_is_refused_at_its_commit() {
    let cluster = Cluster::at_33().await;
    let holder = cluster.behind().await;
    sql::begin(&cluster.two, &resource(), token(34)).await.unwrap().commit().await.unwrap();
    let mut old = sql::begin(&cluster.one, &resource(), token(33)).await.unwrap();
    sqlx::raw_sql(write(33)).execute(&mut *old).await.unwrap();
    let old = tokio::spawn(old.commit());
    reach_the_group().await;
    go_on(holder).await;
    assert!(AdmitError::from(old.await.unwrap().unwrap_err()).is_retryable());
    cluster.settled().await;
    assert_eq!(cluster.body(&cluster.two).await, 0);
}
