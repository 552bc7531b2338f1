//! Commits that fail.

use fencing::Sequencer;
use fencing::fence::{CommitError, Transactions};
use sqlx::MySqlPool;

use super::setup::{migrated, run};
use crate::common::{resource, token};

/// A deadlock ends a transaction, and what the handler writes after that is stored at once. If the session then
/// ends before the commit, nobody can say whether that has happened.
#[tokio::test]
async fn a_session_that_ends_before_its_commit_leaves_it_in_doubt() {
    let place = migrated().await;
    let admitted = [Sequencer::new(resource(), token(33))];
    let mut tx = Transactions::begin(&place.pool, &admitted).await.unwrap();
    let id = sqlx::query_scalar::<_, u64>("SELECT CONNECTION_ID()").fetch_one(&mut *tx);
    let id = id.await.unwrap();
    run(&place.pool, &format!("KILL {id}")).await;
    let error = <MySqlPool as Transactions>::commit(tx).await.unwrap_err();
    assert!(matches!(error, CommitError::InDoubt(_)), "{error}");
}
