//! The HTTP layer that opens the transaction of a request: what lands, between servers that know nothing of
//! each other but the database.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, put};
use fencing::Fence;
use fencing::fence::MemoryMarks;
use fencing::http::{self, FenceLayer, Fenced, InTransaction, Problem, Refusal, TransactionLayer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tower::ServiceExt;

use super::*;
use crate::service::{self, Answer, answer, behind, request, server};

type Pool = sqlx::Pool<Db>;
type Tx = InTransaction<Pool>;

/// Where a write waits between its check and its write.
#[derive(Clone, Default)]
struct Pause {
    arrived: Arc<Notify>,
    go: Arc<Notify>,
}

impl Pause {
    async fn at(&self, token: Token) {
        if token.get() == 33 {
            self.arrived.notify_one();
            self.go.notified().await;
        }
    }
}

fn writer(pause: &Pause) -> MethodRouter {
    let pause = pause.clone();
    put(move |fenced: Fenced, mut tx: Tx| async move {
        pause.at(fenced.token).await;
        write(&mut tx, fenced.token).await?;
        Ok::<_, Refusal>("written")
    })
}

/// Sends a write until no other transaction is in its way.
async fn send(app: &Router, number: u64, refused: &Notify) -> Answer {
    loop {
        match service::send(app, "/files/a", number).await {
            (StatusCode::SERVICE_UNAVAILABLE, Some(problem))
                if problem.kind == Problem::CONFLICT =>
            {
                refused.notify_one();
                pause().await;
            }
            answer => return answer,
        }
    }
}

#[tokio::test]
async fn between_servers_33_never_lands_after_34() {
    let place = ready().await;
    let pause = Pause::default();
    let (one, two) =
        (server(place.pool.clone(), writer(&pause)), server(place.other(), writer(&pause)));
    let refused = Arc::new(Notify::new());
    let old = tokio::spawn(one.clone().oneshot(request("/files/a", 33)));
    pause.arrived.notified().await;
    let mut new = tokio::spawn({
        let (two, refused) = (two.clone(), Arc::clone(&refused));
        async move { send(&two, 34, &refused).await }
    });
    tokio::select! {
        () = place.blocked() => {}
        () = refused.notified() => {}
        // SQLite: nobody is seen to wait.
        () = tokio::time::sleep(Duration::from_millis(500)) => {}
        answer = &mut new => panic!("34 did not wait: {answer:?}"),
    }
    assert_eq!(file(&place).await, (0, 0));
    pause.go.notify_one();
    assert_eq!(old.await.unwrap().unwrap().status(), 200);
    assert_eq!(new.await.unwrap().0, 200);
    assert_eq!(file(&place).await, (34, 0));
    // The first server has not seen 34, and its database has.
    let (status, problem) = send(&one, 33, &refused).await;
    assert_eq!(status, 412);
    assert_eq!(problem.unwrap().stale().unwrap().highest, token(34));
    assert_eq!(file(&place).await, (34, 0));
}

/// The same servers and clients, with marks that they share and a check that is not in the transaction.
#[tokio::test]
async fn without_the_transaction_33_lands_after_34() {
    let place = ready().await;
    let pause = Pause::default();
    let naive = |pool: Pool| {
        let pause = pause.clone();
        let handler = put(move |State(pool): State<Pool>, fenced: Fenced| async move {
            pause.at(fenced.token).await;
            let mut tx = pool.begin().await?;
            write(&mut tx, fenced.token).await?;
            tx.commit().await?;
            Ok::<_, Refusal>("written")
        });
        let fence = Fence::new(sql::SqlMarks::new(pool.clone()));
        behind(fence, handler.with_state(pool))
    };
    let (one, two) = (naive(place.pool.clone()), naive(place.other()));
    let old = tokio::spawn(one.oneshot(request("/files/a", 33)));
    pause.arrived.notified().await;
    assert_eq!(two.oneshot(request("/files/a", 34)).await.unwrap().status(), 200);
    pause.go.notify_one();
    assert_eq!(old.await.unwrap().unwrap().status(), 200);
    assert_eq!(file(&place).await, (33, 1));
}

/// What a handler does after it has written.
#[derive(Clone, Copy, Debug)]
enum End {
    Status(u16),
    Grpc,
    Error,
    Panic,
    Hang,
}

#[tokio::test]
async fn what_fails_leaves_nothing_behind() {
    let place = ready().await;
    let single = single(&place);
    let ends = [End::Status(404), End::Status(500), End::Grpc, End::Error, End::Panic, End::Hang];
    for (round, end) in (0..).zip(ends) {
        let handler = put(move |fenced: Fenced, mut tx: Tx| async move {
            write(&mut tx, fenced.token).await?;
            match end {
                End::Status(status) => Ok(StatusCode::from_u16(status).unwrap().into_response()),
                End::Grpc => Ok([("grpc-status", "9")].into_response()),
                End::Error => {
                    sqlx::query("INSERT INTO nowhere VALUES (1)").execute(&mut **tx).await?;
                    Ok::<_, Refusal>(().into_response())
                }
                End::Panic => panic!("a handler"),
                End::Hang => std::future::pending().await,
            }
        });
        let app = server(single.clone(), handler);
        let number = u64::try_from(round).unwrap() + 1;
        let hangs = matches!(end, End::Hang);
        let limit = if hangs { Duration::from_millis(300) } else { Duration::from_secs(60) };
        let sent = tokio::time::timeout(limit, app.oneshot(request("/files/a", number)));
        let answer = tokio::spawn(sent).await;
        match end {
            End::Panic => assert!(answer.unwrap_err().is_panic()),
            End::Hang => assert!(answer.unwrap().is_err()),
            End::Grpc => assert_eq!(answer.unwrap().unwrap().unwrap().status(), 200),
            End::Status(_) | End::Error => {
                assert!(!answer.unwrap().unwrap().unwrap().status().is_success());
            }
        }
        // No write, no lock, and the one connection serves the next request.
        let before = (round, 0);
        assert_eq!(file(&place).await, before, "{end:?}");
        let app = server(single.clone(), writer(&Pause::default()));
        let (status, problem) = send(&app, number, &Notify::new()).await;
        assert_eq!(status, 200, "{end:?}: {problem:?}");
        assert_eq!(file(&place).await, (round + 1, 0), "{end:?}");
    }
}

#[tokio::test]
async fn a_request_dropped_at_any_poll_is_stored_whole_or_not_at_all() {
    let place = ready().await;
    let (mut answered, mut stored) = (0, 0);
    for polls in 1..40 {
        // A connection that has not prepared the write yet: it must survive that a statement is dropped while
        // it is prepared.
        let single = single(&place);
        let number = 100 + 2 * polls;
        let idle = server(single.clone(), put(async |_: Tx| "not written"));
        let (status, problem) = send(&idle, number, &Notify::new()).await;
        assert_eq!(status, 200, "{problem:?}");
        let app = server(single, writer(&Pause::default()));
        let answer =
            crate::common::poll(polls, app.clone().oneshot(request("/files/a", number + 1))).await;
        let (other, resource) = (place.other(), resource());
        sql::begin(&other, &resource, token(number + 1)).await.unwrap().commit().await.unwrap();
        let (written, late) = file(&place).await;
        assert_eq!(late, 0);
        stored += u32::from(written.cast_unsigned() == number + 1);
        if answer.is_some_and(|answer| answer.unwrap().status() == 200) {
            answered += 1;
            assert_eq!(written.cast_unsigned(), number + 1);
        }
        let (status, problem) = send(&app, number + 1, &Notify::new()).await;
        assert_eq!(status, 200, "{polls} polls: {problem:?}");
    }
    assert!(answered > 0 && stored < 39, "{answered} answered, {stored} stored");
}

#[tokio::test]
async fn a_pool_without_places_is_called_so() {
    let place = ready().await;
    let options = place.pool.options().clone().max_connections(1);
    let single = options.acquire_timeout(Duration::from_millis(200));
    let single = single.connect_lazy_with((*place.pool.connect_options()).clone());
    let _held = loop {
        if let Ok(held) = single.acquire().await {
            break held;
        }
    };
    let app = server(single, writer(&Pause::default()));
    let (status, problem) = send(&app, 33, &Notify::new()).await;
    let detail = problem.unwrap().detail;
    assert!(status == 503 && detail.contains("no connection to its database free"), "{detail}");
}

/// Over TCP, with a connection that breaks off.
#[tokio::test]
async fn a_client_that_hangs_up_in_the_middle_is_rolled_back() {
    let place = ready().await;
    let pause = Pause::default();
    let single = single(&place);
    let held = pause.clone();
    let handler = put(move |fenced: Fenced, mut tx: Tx| async move {
        write(&mut tx, fenced.token).await?;
        held.at(fenced.token).await;
        Ok::<_, Refusal>("written")
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = server(single, handler);
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let send = async |number: u64| {
        let mut client = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "PUT /files/a HTTP/1.1\r\nhost: a\r\nfencing-token: {number}\r\n\
            content-length: 0\r\nconnection: close\r\n\r\n"
        );
        client.write_all(head.as_bytes()).await.unwrap();
        client
    };
    let client = send(33).await;
    pause.arrived.notified().await;
    drop(client);
    // A newer one goes on: neither the fence nor the one connection is held.
    let mut answer = String::new();
    send(34).await.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(file(&place).await, (34, 0));
    serving.abort();
}

#[tokio::test]
async fn a_transaction_that_the_handler_ends_is_in_doubt() {
    let place = ready().await;
    let handler = put(|fenced: Fenced, mut tx: Tx| async move {
        write(&mut tx, fenced.token).await?;
        sqlx::raw_sql("COMMIT").execute(&mut **tx).await?;
        write(&mut tx, fenced.token).await?;
        Ok::<_, Refusal>("written")
    });
    let app = server(place.pool.clone(), handler);
    let (status, problem) = send(&app, 33, &Notify::new()).await;
    assert_eq!(status, 503);
    assert_eq!(problem.unwrap().kind, Problem::IN_DOUBT);
}

/// On PostgreSQL a statement that failed leaves nothing to commit, and COMMIT does not say so.
#[tokio::test]
async fn an_error_that_the_handler_ignores_is_not_called_a_success() {
    let place = ready().await;
    let handler = put(|fenced: Fenced, mut tx: Tx| async move {
        write(&mut tx, fenced.token).await?;
        let twice = "INSERT INTO files VALUES ('files/a', 0, 0)";
        assert!(sqlx::query(twice).execute(&mut **tx).await.is_err());
        Ok::<_, Refusal>("written")
    });
    let app = server(place.pool.clone(), handler);
    let (status, problem) = send(&app, 33, &Notify::new()).await;
    let stored = file(&place).await.0 == 33;
    assert_eq!(status.is_success(), stored, "{problem:?}");
    if !stored {
        assert_eq!(problem.unwrap().kind, Problem::ROLLED_BACK);
    }
}

/// A task that keeps it writes nothing that is stored, and a newer token waits for it.
#[tokio::test]
async fn a_task_that_keeps_the_transaction_stores_nothing() {
    let place = ready().await;
    let pause = Pause::default();
    let held = pause.clone();
    let (done, finished) = tokio::sync::oneshot::channel();
    let done = Arc::new(std::sync::Mutex::new(Some(done)));
    let handler = put(move |fenced: Fenced, mut tx: Tx| async move {
        let task = async move {
            held.at(fenced.token).await;
            write(&mut tx, fenced.token).await.unwrap();
            drop(tx);
            done.lock().unwrap().take().unwrap().send(()).unwrap();
        };
        tokio::spawn(task);
    });
    let app = server(place.pool.clone(), handler);
    let (status, problem) = send(&app, 33, &Notify::new()).await;
    assert_eq!((status.as_u16(), problem.unwrap().kind.as_str()), (500, Problem::ROLLED_BACK));
    pause.go.notify_one();
    finished.await.unwrap();
    let app = server(place.other(), writer(&Pause::default()));
    assert_eq!(send(&app, 34, &Notify::new()).await.0, 200);
    assert_eq!(file(&place).await, (34, 0));
}

/// A request about two files: both tokens are admitted in its transaction, or neither.
#[tokio::test]
async fn several_resources_are_admitted_in_one_transaction() {
    let place = ready().await;
    let two = |_: &axum::http::request::Parts| {
        ["files/b", "files/a"].map(Resource::new).into_iter().collect::<Result<Vec<_>, _>>()
    };
    let handler = put(|fenced: Fenced, mut tx: Tx| async move {
        assert_eq!(fenced.sequencers().len(), 2);
        write(&mut tx, fenced.token).await?;
        Ok::<_, Refusal>("written")
    });
    let server = || {
        let fence = FenceLayer::new(Fence::new(MemoryMarks::default()), two);
        let layer = TransactionLayer::new(place.pool.clone());
        let handler = handler.clone().route_layer(layer).route_layer(fence);
        Router::new().route("/move", handler)
    };
    let moving = async |a: u64, b: u64| {
        let mut request = Request::put("/move").body(Body::empty()).unwrap();
        let shown = [format!("{a} files/a"), format!("{b} files/b")];
        let shown: Vec<fencing::Sequencer> =
            shown.iter().map(|text| text.parse().unwrap()).collect();
        http::attach_all(request.headers_mut(), &shown);
        answer(server().oneshot(request).await.unwrap()).await
    };
    assert_eq!(moving(33, 7).await.0, 200);
    assert_eq!(file(&place).await, (7, 0));
    let b = Resource::new("files/b").unwrap();
    assert_eq!(
        (highest(&place, &resource()).await, highest(&place, &b).await),
        (Some(33), Some(7))
    );
    // The second is stale, so nothing is written, though the first was raised before that.
    let (status, problem) = moving(34, 6).await;
    assert_eq!(status, 412);
    assert_eq!(problem.unwrap().stale().unwrap().resource, b);
    assert_eq!(file(&place).await, (7, 0));
    assert_eq!(
        (highest(&place, &resource()).await, highest(&place, &b).await),
        (Some(34), Some(7))
    );
}
