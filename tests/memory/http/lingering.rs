//! A storage whose driver must not be dropped in the middle of a statement: the handler of a dropped request has a grace.

use fencing::http::InTransaction;

use super::transaction::{Graceful, behind};
use super::*;

const GRACE: Duration = Duration::from_secs(2);

/// Drops the request of a handler that works for so long, and returns what happened by the end of the grace.
async fn dropped(work: Duration) -> Vec<String> {
    let storage = Graceful::<2>::default();
    let noted = storage.clone();
    let handler = move |tx: InTransaction<Graceful<2>>| async move {
        tokio::time::sleep(work).await;
        noted.note("worked");
        drop(tx);
    };
    let sent = behind(&storage, put(handler)).oneshot(request("PUT", &["33"]));
    assert!(tokio::time::timeout(Duration::from_millis(1), sent).await.is_err());
    assert_eq!(storage.events(), ["begin 33 files/a"]);
    tokio::time::sleep(GRACE * 3 / 2).await;
    storage.events()
}

#[tokio::test(start_paused = true)]
async fn what_it_writes_then_is_not_committed_and_when_that_is_over_it_is_dropped() {
    assert_eq!(dropped(GRACE / 2).await, ["worked", "dropped"]);
    assert_eq!(dropped(GRACE * 2).await, ["dropped"]);
}
