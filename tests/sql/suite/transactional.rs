//! The HTTP layer that opens a request's transaction: what lands, between servers that share nothing but the database.

use axum::Router;
use axum::extract::State;
use axum::routing::{MethodRouter, put};
use fencing::http::{Fenced, InTransaction, Problem, Refusal};
use tokio::sync::Notify;
use tower::ServiceExt;

use super::*;
use crate::service;
use crate::service::{Answer, behind, request, server};

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
        write(&mut tx, fenced.token, "").await?;
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
    let (one, two) = (server(place.pool.clone(), writer(&pause)), server(place.other(), writer(&pause)));
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
            write(&mut tx, fenced.token, "").await?;
            tx.commit().await?;
            Ok::<_, Refusal>("written")
        });
        behind(Fence::new(sql::SqlMarks::new(pool.clone())), handler.with_state(pool))
    };
    let (one, two) = (naive(place.pool.clone()), naive(place.other()));
    let old = tokio::spawn(one.oneshot(request("/files/a", 33)));
    pause.arrived.notified().await;
    assert_eq!(two.oneshot(request("/files/a", 34)).await.unwrap().status(), 200);
    pause.go.notify_one();
    assert_eq!(old.await.unwrap().unwrap().status(), 200);
    assert_eq!(file(&place).await, (33, 1));
}

#[tokio::test]
async fn a_request_dropped_at_any_poll_is_stored_whole_or_not_at_all() {
    let place = ready().await;
    let (mut answered, mut stored) = (0, 0);
    for polls in 1..40 {
        // A connection that has not prepared the write: it must survive a statement being dropped while prepared.
        let single = single(&place.pool);
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
