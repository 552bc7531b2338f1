//! A storage whose driver must not be dropped in the middle of a statement: the handler of a dropped request has a grace.

use std::sync::Mutex;

use axum::routing::put;
use fencing::Sequencer;
use fencing::fence::{CommitError, Transactions};
use fencing::http::{InTransaction, TransactionLayer};

use super::*;

const GRACE: Duration = Duration::from_secs(2);

#[derive(Clone, Default)]
struct Storage(Arc<Mutex<Vec<&'static str>>>);

impl Storage {
    fn note(&self, event: &'static str) {
        self.0.lock().unwrap().push(event);
    }
}

/// Notes its end.
struct Open(Storage);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.note("rolled back");
    }
}

impl Transactions for Storage {
    type Transaction = Open;

    const GRACE: Duration = GRACE;

    fn begin<'a>(&'a self, _: &'a [Sequencer]) -> BoxFuture<'a, Result<Open, FenceError>> {
        async { Ok(Open(self.clone())) }.boxed()
    }

    fn commit(open: Open) -> BoxFuture<'static, Result<(), CommitError>> {
        async move {
            open.0.note("committed");
            Ok(())
        }
        .boxed()
    }

    fn rollback(open: Open) -> BoxFuture<'static, ()> {
        async move { drop(open) }.boxed()
    }
}

/// Drops the request of a handler that works for so long, and returns what happened by the end of the grace.
async fn dropped(work: Duration) -> Vec<&'static str> {
    let storage = Storage::default();
    let noted = storage.clone();
    let handler = move |tx: InTransaction<Storage>| async move {
        tokio::time::sleep(work).await;
        noted.note("worked");
        drop(tx);
    };
    let handler = put(handler).route_layer(TransactionLayer::new(storage.clone()));
    let app: Router = Router::new().route("/files/{name}", handler.route_layer(layer(fence())));
    let sent = app.oneshot(request("PUT", &["33"]));
    assert!(tokio::time::timeout(Duration::from_millis(1), sent).await.is_err());
    assert_eq!(*storage.0.lock().unwrap(), [""; 0]);
    tokio::time::sleep(GRACE * 3 / 2).await;
    let events = storage.0.lock().unwrap();
    events.clone()
}

#[tokio::test(start_paused = true)]
async fn what_it_writes_then_is_not_committed() {
    assert_eq!(dropped(GRACE / 2).await, ["worked", "rolled back"]);
}

#[tokio::test(start_paused = true)]
async fn when_that_is_over_it_is_dropped() {
    assert_eq!(dropped(GRACE * 2).await, ["rolled back"]);
}
