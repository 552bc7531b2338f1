//! 33 has begun on one node when 34 is admitted on the other one, reads, and commits. What 33
//! writes must not land after that.

use fencing::sql::{AdmitError, Protect};

use super::*;
use crate::common::stale;
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
        let error = AdmitError::from(committed.unwrap_err());
        assert!(error.is_retryable(), "{way:?}: {error:?}");
    }
}

#[tokio::test]
async fn without_the_guard_it_lands() {
    let (committed, left) = play(Way::Unfenced).await;
    committed.unwrap();
    assert_eq!(left, 33, "nothing was tested");
}

/// A new token whose mark the other node has not applied yet.
#[tokio::test]
async fn a_stale_token_that_begins_on_a_node_that_is_behind_is_refused_at_its_commit() {
    let cluster = Cluster::at_33().await;
    let holder = cluster.behind().await;
    raise(&cluster.two, &resource(), 34).await;
    let old = Writer::new(Way::Begin).open(&cluster.one, 33).await.unwrap();
    let committed = cluster.caught_up(holder, old.commit()).await;
    assert!(AdmitError::from(committed.unwrap_err()).is_retryable());
    assert_eq!(cluster.token(&cluster.two).await, 0);
}
