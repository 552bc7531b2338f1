//! The layer that opens a transaction for each request, over a storage that writes down what is asked
//! of it. tests/sql/suite/transactional.rs runs it on databases.

use std::pin::pin;
use std::sync::Mutex;

use axum::response::IntoResponse;
use fencing::Sequencer;
use fencing::fence::{CommitError, Transactions};
use fencing::http::{InTransaction, OpenTransaction, TransactionLayer};

use super::admin::said;
use super::*;

const GRACE: Duration = Duration::from_secs(2);

/// A storage whose driver must not be dropped in the middle of a statement: a handler has a grace.
#[derive(Clone, Default)]
struct Storage {
    events: Arc<Mutex<Vec<String>>>,
    commits: Arc<Notify>,
    begins: Option<&'static str>,
    ends: Option<&'static str>,
    waits: bool,
    /// A statement is still under way that the handler gave up on: a rollback waits for it.
    hangs: bool,
}

struct Open {
    storage: Storage,
    ended: bool,
}

impl Open {
    fn end(mut self, how: &str) {
        self.ended = true;
        self.storage.note(how);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.ended {
            self.storage.note("dropped");
        }
    }
}

impl Storage {
    fn note(&self, event: impl Into<String>) {
        self.events.lock().unwrap().push(event.into());
    }

    fn events(&self) -> Vec<String> {
        std::mem::take(&mut *self.events.lock().unwrap())
    }
}

impl Transactions for Storage {
    type Transaction = Open;

    const GRACE: Duration = GRACE;

    fn begin<'a>(&'a self, admitted: &'a [Sequencer]) -> BoxFuture<'a, Result<Open, FenceError>> {
        let names: Vec<String> = admitted.iter().map(ToString::to_string).collect();
        self.note(format!("begin {}", names.join(", ")));
        let (resource, token) = (admitted[0].resource.clone(), admitted[0].token);
        let higher = Token::new(99).unwrap();
        let outcome = match self.begins {
            None => Ok(Open { storage: self.clone(), ended: false }),
            Some("stale") => Err(Stale::check(&resource, token, Some(higher)).unwrap_err().into()),
            Some("conflict") => Err(FenceError::Conflict("deadlock".into())),
            Some("full") => Err(FenceError::NoConnection("the pool timed out".into())),
            Some(_) => Err(FenceError::Unreachable("no database".into())),
        };
        async move { outcome }.boxed()
    }

    fn commit(transaction: Open) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(async move {
            let storage = transaction.storage.clone();
            storage.note("commit");
            if storage.waits {
                storage.commits.notified().await;
            }
            transaction.end("committed");
            match storage.ends {
                None => Ok(()),
                Some("conflict") => Err(CommitError::Conflict("deadlock".into())),
                Some("rolled back") => Err(CommitError::RolledBack("it had failed".into())),
                Some("broken") => {
                    let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                    Err(CommitError::RolledBack(sqlx::Error::from(broken).into()))
                }
                Some(_) => Err(CommitError::InDoubt("the answer was lost".into())),
            }
        })
    }

    fn rollback(transaction: Open) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            if transaction.storage.hangs {
                std::future::pending().await
            }
            transaction.end("rolled back");
        })
    }
}

fn behind(storage: &Storage, handler: MethodRouter) -> Router {
    let handler = handler.route_layer(TransactionLayer::new(storage.clone())).route_layer(layer(fence()));
    Router::new().route("/files/{name}", handler)
}

async fn answer(response: impl IntoResponse) -> Response<Body> {
    response.into_response()
}

#[tokio::test]
async fn success_is_committed_and_all_else_is_rolled_back() {
    for (status, grpc, end) in [
        (200, None, "committed"),
        (204, Some("0"), "committed"),
        (303, None, "committed"),
        (200, Some("9"), "rolled back"),
        (101, None, "rolled back"),
        (400, None, "rolled back"),
        (412, None, "rolled back"),
        (500, None, "rolled back"),
    ] {
        let storage = Storage::default();
        let handler = move |_: InTransaction<Storage>| {
            let mut response = Response::new(Body::from("done"));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            if let Some(grpc) = grpc {
                response.headers_mut().insert("grpc-status", grpc.parse().unwrap());
            }
            answer(response)
        };
        let response = write(&behind(&storage, put(handler)), 33).await;
        assert_eq!(response.status(), status);
        // All of it has happened by now.
        let events = storage.events();
        assert_eq!(events.first().unwrap(), "begin 33 files/a", "{status} {grpc:?}");
        assert_eq!(events.last().unwrap(), end, "{status} {grpc:?}");
        assert_eq!(text(response).await, "done");
    }
}

#[tokio::test]
async fn the_head_of_the_response_waits_for_the_commit() {
    let storage = Storage { waits: true, ..Storage::default() };
    let app = behind(&storage, put(async |_: InTransaction<Storage>| "done"));
    let mut answer = pin!(app.oneshot(request("PUT", &["33"])));
    for _ in 0..20 {
        assert!(answer.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    assert_eq!(storage.events(), ["begin 33 files/a", "commit"]);
    storage.commits.notify_one();
    assert_eq!(text(answer.await.unwrap()).await, "done");
    assert_eq!(storage.events(), ["committed"]);
}

#[tokio::test]
async fn what_fails_says_whether_anything_may_be_stored() {
    let cases = [
        (Some("stale"), None, 412, "10", Problem::STALE, false, "stale"),
        (Some("conflict"), None, 503, "14", Problem::CONFLICT, true, "try again"),
        (Some("full"), None, 503, "14", Problem::UNAVAILABLE, true, "no free database connection"),
        (Some("lost"), None, 503, "14", Problem::UNAVAILABLE, true, "nothing was written"),
        (None, Some("conflict"), 503, "14", Problem::CONFLICT, true, "rolled back; try again"),
        (None, Some("rolled back"), 503, "13", Problem::ROLLED_BACK, false, "nothing was written"),
        (None, Some("broken"), 503, "14", Problem::ROLLED_BACK, true, "nothing was written"),
        (None, Some("lost"), 503, "2", Problem::IN_DOUBT, false, "in doubt"),
    ];
    for (begins, ends, status, grpc_status, kind, again, words) in cases {
        let storage = Storage { begins, ends, ..Storage::default() };
        let handler = async |tx: Option<InTransaction<Storage>>| {
            assert!(tx.is_some());
            ([("set-cookie", "written=yes")], "done")
        };
        let app = behind(&storage, put(handler).post(handler));
        let response = write(&app, 33).await;
        assert_eq!(response.status(), status, "{kind}");
        assert_eq!(response.headers().contains_key(header::RETRY_AFTER), again, "{kind}");
        assert!(!response.headers().contains_key("set-cookie"), "it was not written");
        let problem = problem(response).await;
        assert_eq!(problem.kind, kind);
        assert!(problem.detail.contains(words), "{}", problem.detail);
        assert!(!problem.detail.contains("answer was lost"), "{}", problem.detail);

        let response = ask(&app, grpc(request("POST", &["33"]))).await;
        assert_eq!(response.status(), 200, "{kind}");
        assert_eq!(response.headers()["grpc-status"], grpc_status, "{kind}");
        assert!(Problem::read_grpc(response.headers()).is_some());
    }
}

#[tokio::test]
async fn what_the_body_keeps_is_not_committed() {
    let storage = Storage::default();
    let handler = async |tx: InTransaction<Storage>| {
        let frame = futures_util::stream::once(async move {
            drop(tx);
            Ok::<_, Infallible>(http_body::Frame::data(Bytes::from("late")))
        });
        Body::new(StreamBody::new(Box::pin(frame)))
    };
    let app = behind(&storage, put(handler));
    assert_eq!(write(&app, 33).await.status(), 500);
    assert_eq!(storage.events(), ["begin 33 files/a", "dropped"]);
}

#[tokio::test(start_paused = true)]
async fn the_way_to_a_transaction_keeps_nothing_open() {
    let (send, mut kept) = tokio::sync::mpsc::unbounded_channel();
    let storage = Storage::default();
    let handler = move |request: Request<Body>| {
        let open = request.extensions().get::<OpenTransaction<Storage>>().unwrap().clone();
        let first = open.take().unwrap();
        assert!(open.take().is_none(), "one at a time");
        drop(first);
        assert!(open.take().is_some());
        send.send(open).unwrap();
        answer("done")
    };
    let app = behind(&storage, put(handler));
    assert_eq!(write(&app, 33).await.status(), 200);
    assert_eq!(storage.events(), ["begin 33 files/a", "commit", "committed"]);
    assert!(kept.recv().await.unwrap().take().is_none());

    // And when the request is dropped.
    let (send, mut kept) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |request: Request<Body>| async move {
        send.send(request.extensions().get::<OpenTransaction<Storage>>().unwrap().clone()).unwrap();
        std::future::pending::<()>().await
    };
    let app = behind(&storage, put(handler));
    assert!(app.oneshot(request("PUT", &["33"])).now_or_never().is_none());
    tokio::time::sleep(GRACE * 2).await;
    assert_eq!(storage.events(), ["begin 33 files/a", "dropped"]);
    assert!(kept.recv().await.unwrap().take().is_none());
}

#[tokio::test]
async fn without_a_token_or_without_a_fence() {
    let storage = Storage::default();
    let read = async |tx: Option<InTransaction<Storage>>| tx.is_some().to_string();
    let app = behind(&storage, put(async |_: InTransaction<Storage>| "").get(read));
    let response = ask(&app, request("GET", &[])).await;
    assert_eq!(text(response).await, "false");
    assert_eq!(storage.events(), [""; 0]);
    let response = ask(&app, request("GET", &["33"])).await;
    assert_eq!(text(response).await, "true");
    assert_eq!(storage.events(), ["begin 33 files/a", "commit", "committed"]);

    let needs = axum::routing::get(async |_: InTransaction<Storage>| "");
    let response = behind(&storage, needs).oneshot(request("GET", &[])).await.unwrap();
    assert_eq!(response.status(), 428);

    let handler = put(async || "reached").route_layer(TransactionLayer::new(storage.clone()));
    let app: Router = Router::new().route("/files/{name}", handler);
    assert_eq!(write(&app, 33).await.status(), 500);
    // The wrong way around.
    let handler = put(async || "reached").route_layer(layer(fence()));
    let handler = handler.route_layer(TransactionLayer::new(storage.clone()));
    let (said, response) = said(&Router::new().route("/files/{name}", handler)).await;
    assert_eq!(response.status(), 500);
    assert!(said.contains("FenceLayer must be outside the TransactionLayer"), "{said}");
    let handler = put(async |_: InTransaction<Storage>| "reached").route_layer(layer(fence()));
    let app: Router = Router::new().route("/files/{name}", handler);
    assert_eq!(write(&app, 33).await.status(), 500);
    assert_eq!(storage.events(), [""; 0]);
}

/// The second would wait for the mark that the first has locked.
#[tokio::test]
async fn a_second_layer_around_the_handler_begins_nothing() {
    let storage = Storage::default();
    let twice = || TransactionLayer::new(storage.clone());
    let route = put(async || "reached").route_layer(twice());
    let app: Router = Router::new().route("/files/{name}", route);
    let app = app.route_layer(twice()).route_layer(layer(fence()));
    let (said, response) = said(&app).await;
    assert_eq!(response.status(), 500);
    let events = storage.events();
    assert!(!events.is_empty() && events.chunks(2).all(|events| events == ["begin 33 files/a", "rolled back"]));
    assert!(said.contains("two TransactionLayers"), "{said}");
}

/// What stood in the way of a transaction of the handler's own says nothing of its other writes.
#[tokio::test]
async fn a_conflict_is_called_one_only_below_the_layer_that_rolls_back() {
    let storage = Storage::default();
    let handler = || {
        let refuse = async || Err::<(), Refusal>(FenceError::Conflict("deadlock".into()).into());
        put(async move || ([("x-request-id", "7")], refuse().await))
    };
    let alone = Router::new().route("/files/{name}", handler()).layer(layer(fence()));
    let layers = [(behind(&storage, handler()), Problem::CONFLICT), (alone, Problem::UNAVAILABLE)];
    for (app, kind) in layers {
        let response = write(&app, 33).await;
        assert_eq!((response.status().as_u16(), &response.headers()["x-request-id"]), (503, &"7".parse().unwrap()));
        let refused = matches!(response.extensions().get(), Some(Refusal::Conflict(_)));
        assert_eq!(refused, kind == Problem::CONFLICT);
        let found = problem(response).await;
        assert_eq!(found.kind, kind);
        assert_eq!(found.detail.contains("may or may not be stored"), kind == Problem::UNAVAILABLE);
    }
    assert_eq!(storage.events(), ["begin 33 files/a", "rolled back"]);
}

#[tokio::test]
async fn a_database_that_begins_nothing_is_an_error_in_the_log() {
    for (begins, tells) in [("stale", false), ("conflict", false), ("lost", true)] {
        let storage = Storage { begins: Some(begins), ..Storage::default() };
        let (said, _) = said(&behind(&storage, put(async || "reached"))).await;
        assert_eq!(said.contains("no database"), tells, "{begins}: {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollback_that_takes_for_ever_holds_up_neither_the_answer_nor_newer_requests() {
    let storage = Storage { hangs: true, ..Storage::default() };
    let app = behind(&storage, put(|_: InTransaction<Storage>| answer(StatusCode::BAD_REQUEST)));
    for token in ["33", "34"] {
        // The time is the test's own: nothing else takes any.
        let start = tokio::time::Instant::now();
        assert_eq!(ask(&app, request("PUT", &[token])).await.status(), 400);
        assert!(start.elapsed() <= Duration::from_secs(2), "{:?}", start.elapsed());
        // Whoever drops it rolls it back.
        assert_eq!(storage.events().last().unwrap(), "dropped");
    }
}

/// What it writes then is not committed, and when that is over it is dropped.
#[tokio::test(start_paused = true)]
async fn the_handler_of_a_dropped_request_has_a_grace() {
    for (work, events) in [(GRACE / 2, &["worked", "dropped"][..]), (GRACE * 2, &["dropped"])] {
        let storage = Storage::default();
        let noted = storage.clone();
        let handler = move |tx: InTransaction<Storage>| async move {
            tokio::time::sleep(work).await;
            noted.note("worked");
            drop(tx);
        };
        let sent = behind(&storage, put(handler)).oneshot(request("PUT", &["33"]));
        assert!(tokio::time::timeout(Duration::from_millis(1), sent).await.is_err());
        assert_eq!(storage.events(), ["begin 33 files/a"]);
        tokio::time::sleep(GRACE * 3 / 2).await;
        assert_eq!(storage.events(), events);
    }
}
