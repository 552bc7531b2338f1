//! Commits that fail.

use fencing::Sequencer;
use fencing::fence::{CommitError, Transactions};
use fencing::sql;
use sqlx::{AssertSqlSafe, Executor, MySqlPool};

use super::place::Place;
use crate::common::{resource, token};

/// A deadlock ends a transaction, and what the handler writes after that is stored at once. If the session then
/// ends before the commit, nobody can say whether that has happened.
#[tokio::test]
async fn a_session_that_ends_before_its_commit_leaves_it_in_doubt() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    let admitted = [Sequencer::new(resource(), token(33))];
    let mut tx = Transactions::begin(&place.pool, &admitted).await.unwrap();
    let id = sqlx::query_scalar::<_, u64>("SELECT CONNECTION_ID()").fetch_one(&mut *tx);
    let id = id.await.unwrap();
    place.pool.execute(AssertSqlSafe(format!("KILL {id}"))).await.unwrap();
    let error = <MySqlPool as Transactions>::commit(tx).await.unwrap_err();
    assert!(matches!(error, CommitError::InDoubt(_)), "{error}");
}
