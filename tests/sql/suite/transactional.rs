//! The HTTP layer that opens the transaction of a request: what lands, between servers that know nothing of
//! each other but the database.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::{MethodRouter, put};
use fencing::Fence;
use fencing::http::{Fenced, InTransaction, Problem, Refusal};
use tokio::sync::Notify;
use tower::ServiceExt;

use super::*;
use crate::common::poll;
use crate::service::{self, Answer, behind, move_by, moving, request, server};

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
async fn send(app: &Router, number: u64) -> Answer {
    loop {
        match service::send(app, "/files/a", number).await {
            (_, Some(problem)) if problem.kind == Problem::CONFLICT => pause().await,
            answer => return answer,
        }
    }
}

async fn lands(app: &Router, number: u64) {
    let (status, problem) = send(app, number).await;
    assert_eq!(status, 200, "{problem:?}");
}

#[tokio::test]
async fn between_servers_33_never_lands_after_34() {
    let place = ready().await;
    let pause = Pause::default();
    let (one, two) =
        (server(place.pool.clone(), writer(&pause)), server(place.other(), writer(&pause)));
    let old = tokio::spawn(one.clone().oneshot(request("/files/a", 33)));
    pause.arrived.notified().await;
    let mut new = tokio::spawn(async move { send(&two, 34).await });
    tokio::select! {
        () = place.blocked() => {}
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
    let (status, problem) = send(&one, 33).await;
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

/// By an answer, or without one: the one connection serves the next request.
#[tokio::test]
async fn what_fails_leaves_nothing_behind() {
    let place = ready().await;
    let single = single(&place);
    for (before, panics) in [(0_i64, false), (1, true)] {
        let handler = put(move |fenced: Fenced, mut tx: Tx| async move {
            write(&mut tx, fenced.token).await?;
            assert!(!panics, "a handler");
            sqlx::query("INSERT INTO nowhere VALUES (1)").execute(&mut **tx).await?;
            Ok::<_, Refusal>("written")
        });
        let number = before.cast_unsigned() + 1;
        let sent = server(single.clone(), handler).oneshot(request("/files/a", number));
        match tokio::spawn(sent).await {
            Ok(answer) => assert!(!panics && !answer.unwrap().status().is_success()),
            Err(error) => assert!(panics && error.is_panic()),
        }
        assert_eq!(file(&place).await, (before, 0), "{panics}");
        let app = server(single.clone(), writer(&Pause::default()));
        lands(&app, number).await;
        assert_eq!(file(&place).await, (before + 1, 0), "{panics}");
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
        lands(&idle, number).await;
        let app = server(single, writer(&Pause::default()));
        let answer = poll(polls, app.clone().oneshot(request("/files/a", number + 1))).await;
        raise(&place.other(), &resource(), number + 1).await;
        let (written, late) = file(&place).await;
        assert_eq!(late, 0);
        stored += u32::from(written.cast_unsigned() == number + 1);
        if answer.is_some_and(|answer| answer.unwrap().status() == 200) {
            answered += 1;
            assert_eq!(written.cast_unsigned(), number + 1);
        }
        lands(&app, number + 1).await;
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
    let (status, problem) = send(&app, 33).await;
    let detail = problem.unwrap().detail;
    assert!(status == 503 && detail.contains("no connection to its database free"), "{detail}");
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
    let (status, problem) = send(&app, 33).await;
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
    let (status, problem) = send(&app, 33).await;
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
    let (status, problem) = send(&app, 33).await;
    assert_eq!((status.as_u16(), problem.unwrap().kind.as_str()), (500, Problem::ROLLED_BACK));
    pause.go.notify_one();
    finished.await.unwrap();
    let app = server(place.other(), writer(&Pause::default()));
    lands(&app, 34).await;
    assert_eq!(file(&place).await, (34, 0));
}

/// A request about two files: both tokens are admitted in its transaction, or neither.
#[tokio::test]
async fn several_resources_are_admitted_in_one_transaction() {
    let place = ready().await;
    let handler = put(|fenced: Fenced, mut tx: Tx| async move {
        assert_eq!(fenced.sequencers().len(), 2);
        write(&mut tx, fenced.token).await?;
        Ok::<_, Refusal>("written")
    });
    let moved = async |shown: [&str; 2]| {
        let app = moving(place.pool.clone(), ["files/b", "files/a"], handler.clone());
        move_by(app, shown).await
    };
    let b = named("files/b");
    let marks = async || (highest(&place, &resource()).await, highest(&place, &b).await);
    assert_eq!(moved(["33 files/a", "7 files/b"]).await.0, 200);
    assert_eq!(file(&place).await, (7, 0));
    assert_eq!(marks().await, (Some(33), Some(7)));
    // The second is stale, so nothing is written, though the first was raised before that.
    let (status, problem) = moved(["34 files/a", "6 files/b"]).await;
    assert_eq!(status, 412);
    assert_eq!(problem.unwrap().stale().unwrap().resource, b);
    assert_eq!(file(&place).await, (7, 0));
    assert_eq!(marks().await, (Some(34), Some(7)));
}
