//! What the tests of every database share, and what most of them use.

pub use std::sync::Arc;
pub use std::time::Duration;

pub use fencing::fence::{CommitError, FenceError, Marks, Stale, Transactions};
pub use fencing::lock::sql::SqlLock;
pub use fencing::sql::{self, AdmitError, MigrateError, Protect, Prune, SqlMarks};
pub use fencing::{Fence, Resource, Sequencer, Token};
pub use futures_util::future::join_all;
pub use sqlx::{AssertSqlSafe, Connection, Database, Executor, Pool, Row, Transaction, raw_sql};
pub use support::lease::{named, token};
use support::waiting::polled;
pub use support::waiting::until;

pub fn resource() -> Resource {
    named("files/a")
}

/// A token of the resource.
pub fn own(number: u64) -> Sequencer {
    Sequencer::new(resource(), token(number))
}

/// The refusal, if it is one; anything but a refusal fails the test.
pub fn stale<T>(result: Result<T, AdmitError>) -> Stale {
    match result {
        Err(AdmitError::Stale(stale)) => stale,
        Err(error) => panic!("not stale: {error:?}"),
        Ok(_) => panic!("admitted"),
    }
}

#[track_caller]
pub fn retryable<T>(result: Result<T, AdmitError>) {
    let error = result.map(drop).expect_err("admitted");
    assert!(matches!(error, AdmitError::Retryable(_)), "{error:?}");
}

#[track_caller]
pub fn unpresented<T>(result: Result<T, AdmitError>) {
    let error = result.map(drop).expect_err("admitted");
    assert!(matches!(error, AdmitError::Unpresented(_)), "{error:?}");
}

/// The SQL under this heading of docs/reference/sql.md: tests run what stands there.
pub fn documented(heading: &str) -> String {
    let text = include_str!("../../docs/reference/sql.md");
    let (_, section) = text.split_once(&format!("\n{heading}\n")).expect("the heading");
    let section = section.split("\n#").next().unwrap_or_default();
    let blocks = section.split("```sql\n").skip(1).filter_map(|block| block.split("```").next());
    let blocks = blocks.collect::<String>();
    assert!(!blocks.is_empty(), "{heading}");
    blocks
}

/// Lets others go first, for a random while.
pub async fn pause() {
    tokio::time::sleep(Duration::from_micros(fastrand::u64(..3000))).await;
}

/// Polls a future this often at most, and drops it. Its output, if it was ready by then.
pub async fn poll<F: Future>(polls: u64, future: F) -> Option<F::Output> {
    polled(future, polls.try_into().unwrap()).await
}

/// The rounds of each play, which `FENCING_ROUNDS` sets.
pub fn rounds() -> u64 {
    std::env::var("FENCING_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

/// Between two statements of a writer, rarely long enough that another one gets all the way through.
pub async fn stall() {
    match fastrand::u8(..4) {
        0 => tokio::time::sleep(Duration::from_micros(fastrand::u64(..2000))).await,
        1 => tokio::task::yield_now().await,
        _ => {}
    }
}

/// Tries until the write is done, or stale. Whether it was done.
pub async fn writer(attempt: impl AsyncFn(u64) -> Result<(), AdmitError>, number: u64) -> bool {
    loop {
        match attempt(number).await {
            Ok(()) => return true,
            Err(AdmitError::Stale(stale)) => {
                assert!(stale.highest > token(number), "{stale}");
                return false;
            }
            Err(AdmitError::Retryable(_)) => stall().await,
            Err(error) => panic!("token {number}: {error:?}"),
        }
    }
}

/// Plays rounds of two writers with neighbouring tokens. Returns in how many the stale writer was refused.
pub async fn refused(rounds: u64, attempt: impl AsyncFn(u64) -> Result<(), AdmitError>) -> u64 {
    let mut refused = 0;
    for round in 0..rounds {
        let old = async {
            // The stale one is late more often than not.
            tokio::time::sleep(Duration::from_micros(fastrand::u64(..1500))).await;
            writer(&attempt, 2 * round + 1).await
        };
        let (old, new) = tokio::join!(old, writer(&attempt, 2 * round + 2));
        assert!(new, "the newest is never stale");
        refused += u64::from(!old);
    }
    refused
}
