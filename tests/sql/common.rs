//! What the tests of every database share.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencing::fence::Stale;
use fencing::sql::AdmitError;
use fencing::{Resource, Token};
use support::polled::polled;
use tokio::task::JoinHandle;

pub fn resource() -> Resource {
    Resource::new("files/a").unwrap()
}

pub fn token(number: u64) -> Token {
    Token::new(number).unwrap()
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
    match result {
        Err(AdmitError::Retryable(_)) => {}
        Err(error) => panic!("not retryable: {error:?}"),
        Ok(_) => panic!("admitted"),
    }
}

#[track_caller]
pub fn unpresented<T>(result: Result<T, AdmitError>) {
    match result {
        Err(AdmitError::Unpresented(_)) => {}
        Err(error) => panic!("presented: {error:?}"),
        Ok(_) => panic!("admitted"),
    }
}

/// The SQL under this heading of docs/sql.md: tests run what stands there.
pub fn documented(heading: &str) -> String {
    let text = include_str!("../../docs/sql.md");
    let (_, section) = text.split_once(&format!("\n{heading}\n")).expect("the heading");
    let section = section.split("\n#").next().unwrap_or_default();
    let blocks = section.split("```sql\n").skip(1).filter_map(|block| block.split("```").next());
    let blocks = blocks.collect::<String>();
    assert!(!blocks.is_empty(), "{heading}");
    blocks
}

/// A random number below `limit`.
pub fn below(limit: u64) -> u64 {
    RandomState::new().hash_one(0) % limit
}

/// Lets others go first, for a random while.
pub async fn pause() {
    tokio::time::sleep(Duration::from_micros(below(3000))).await;
}

/// Polls a future this often at most, and drops it. Its output, if it was ready by then.
pub async fn poll<F: Future>(polls: u64, future: F) -> Option<F::Output> {
    polled(future, polls.try_into().unwrap()).await
}

/// What was acknowledged.
#[derive(Clone, Default)]
pub struct Done(Arc<AtomicU64>);

impl Done {
    pub fn highest(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Writers with growing tokens, each of which goes on until the server is gone.
pub fn until_it_dies<F, W>(done: &Done, from: u64, write: W) -> Vec<JoinHandle<()>>
where
    W: Fn(u64) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<(), AdmitError>> + Send,
{
    let next = Arc::new(AtomicU64::new(from + 1));
    let writer = |_| {
        let (done, next, write) = (done.clone(), Arc::clone(&next), write.clone());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::SeqCst);
                match write(number).await {
                    Ok(()) => {
                        done.0.fetch_max(number, Ordering::SeqCst);
                    }
                    Err(AdmitError::Database(_)) => return,
                    Err(AdmitError::Stale(_) | AdmitError::Retryable(_)) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        })
    };
    (0..6).map(writer).collect()
}
