//! Makes each pool a storage whose transactions check tokens, so that the HTTP layer can open them.

use std::io;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::error::ErrorKind;
use sqlx::{Pool, Transaction};

use super::AdmitError;
use super::admit::{admit, begin, count_outcome, keep_or_roll_back, raise};
use crate::database::{Database, Meaning, meaning};
use crate::fence::{CommitError, FenceError, Transactions};
use crate::sequencer::Sequencer;

/// [`begin`](super::begin()) opens the transaction and admits the first resource; [`admit`](super::admit()) then
/// admits the others. If there are several, each mark is raised before that, in a transaction of its own: so
/// on any isolation level the transaction reads nothing older than one of its admissions.
///
/// It takes one statement more than the driver's own transaction (two on MySQL, none on SQLite), to find out
/// whether the transaction ended before its commit: if a statement failed on PostgreSQL and its error was
/// ignored, nothing is left to commit, and COMMIT does not say so.
impl<DB: Database> Transactions for Pool<DB> {
    type Transaction = Transaction<'static, DB>;

    const GRACE: Duration = DB::GRACE;

    fn begin<'a>(&'a self, admitted: &'a [Sequencer]) -> BoxFuture<'a, Result<Transaction<'static, DB>, FenceError>> {
        Box::pin(async move { Ok(open(self, admitted).await?) })
    }

    fn commit(transaction: Transaction<'static, DB>) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(commit(transaction))
    }

    fn rollback(transaction: Transaction<'static, DB>) -> BoxFuture<'static, ()> {
        // If the rollback fails, the connection is lost, and the transaction with it.
        Box::pin(async move { drop(transaction.rollback().await) })
    }
}

async fn open<DB: Database>(pool: &Pool<DB>, admitted: &[Sequencer]) -> Result<Transaction<'static, DB>, AdmitError> {
    let mut order: Vec<&Sequencer> = admitted.iter().collect();
    order.sort();
    let Some((first, others)) = order.split_first() else {
        return Err(sqlx::Error::Configuration("no token was given".into()).into());
    };
    if !others.is_empty() {
        // Waits for older holders now. After `begin` it would wait with a snapshot that misses what they write.
        for sequencer in &order {
            let raised = raise(pool, &sequencer.resource, sequencer.token).await;
            // What is raised is counted when it is admitted.
            raised.or_else(|error| count_outcome(Err(error)))?;
        }
    }
    let mut tx = begin(pool, &first.resource, first.token).await?;
    let admitted = async {
        for other in others {
            admit(&mut tx, &other.resource, other.token).await?;
        }
        if let Some(mark) = DB::MARK_BEGIN { Ok(DB::execute(&mut tx, mark.to_owned()).await?) } else { Ok(()) }
    };
    let admitted = admitted.await;
    Ok(keep_or_roll_back(tx, admitted).await?.0)
}

async fn commit<DB: Database>(mut tx: Transaction<'static, DB>) -> Result<(), CommitError> {
    if let Some(check) = DB::CHECK_COMMIT
        && let Err(error) = DB::execute(&mut tx, check.to_owned()).await
    {
        let _ = tx.rollback().await;
        return Err(classify_failed_check::<DB>(error));
    }
    tx.commit().await.map_err(|error| match error.as_database_error().map(|error| error.kind()) {
        None => CommitError::InDoubt(error.into()),
        // A constraint that is checked at the end.
        Some(kind) if !matches!(kind, ErrorKind::Other) => CommitError::RolledBack(error.into()),
        Some(_) => match AdmitError::from(error) {
            error @ AdmitError::Retryable(_) => CommitError::Conflict(error.into()),
            error => CommitError::InDoubt(error.into()),
        },
    })
}

/// Returns the outcome if the statement before the commit failed: in doubt if handler or database may have ended the
/// transaction earlier, and later statements are stored. If a failed one may have, the session's end proves nothing.
fn classify_failed_check<DB: Database>(error: sqlx::Error) -> CommitError {
    let meaning = meaning(&error);
    let session_ended = matches!(meaning, None | Some(Meaning::Closing));
    if DB::MARK_BEGIN.is_some() || !session_ended && meaning != Some(Meaning::Aborted) {
        return CommitError::InDoubt(error.into());
    }
    CommitError::RolledBack(match session_ended {
        // The next session may succeed, whatever ended this one.
        true => io::Error::new(io::ErrorKind::ConnectionAborted, error).into(),
        false => error.into(),
    })
}
