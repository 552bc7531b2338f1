//! Commits that fail behind the HTTP layer, and what the client is told.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::{MethodRouter, put};
use fencing::fence::MemoryMarks;
use fencing::http::{self, FenceLayer, Fenced, InTransaction, Problem, Refusal, TransactionLayer};
use fencing::sql::{self, Protect};
use fencing::{Fence, Resource};
use sqlx::PgPool;
use support::postgres::PostgresServer;
use tokio::sync::Barrier;
use tower::ServiceExt;

use super::place::{Place, pool};
use super::setup::{number, run, with};
use crate::common::{resource, token};
use crate::service::{Answer, send, server};

type Tx = InTransaction<PgPool>;

async fn count(place: &Place) -> i64 {
    number(&place.pool, "SELECT count(*) FROM files").await
}

fn is_refused((status, problem): Answer, kind: &str) -> Problem {
    let problem = problem.unwrap();
    assert_eq!((status.as_u16(), problem.kind.as_str()), (503, kind));
    problem
}

fn insert() -> MethodRouter {
    put(async |mut tx: Tx| {
        sqlx::query("INSERT INTO files VALUES (1)").execute(&mut **tx).await?;
        Ok::<_, Refusal>("written")
    })
}

#[tokio::test]
async fn a_session_that_ends_in_its_commit_leaves_it_in_doubt() {
    let place = with(
        "CREATE TABLE files (id INT);
        CREATE FUNCTION dies() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER dies AFTER INSERT ON files DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION dies()",
    )
    .await;
    let app = server(place.pool.clone(), insert());
    let problem = is_refused(send(&app, "/files/a", 33).await, Problem::IN_DOUBT);
    assert!(problem.detail.contains("may or may not be stored"), "{}", problem.detail);
    assert_eq!(count(&place).await, 0);
    // The pool goes on.
    run(&place.pool, "ALTER TABLE files DISABLE TRIGGER dies").await;
    assert_eq!(send(&app, "/files/a", 33).await.0, 200);
    assert_eq!(count(&place).await, 1);
}

/// The connection breaks, and nothing says why.
#[tokio::test]
async fn a_server_that_dies_in_a_commit_leaves_it_in_doubt() {
    let mut postgres = PostgresServer::start();
    let pool = pool(postgres.database().await);
    sql::migrate(&pool).await.unwrap();
    run(
        &pool,
        "CREATE TABLE files (id INT);
        CREATE FUNCTION sleeps() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN PERFORM pg_sleep(600); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER sleeps AFTER INSERT ON files DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION sleeps()",
    )
    .await;
    let app = server(pool.clone(), insert());
    let committing = async {
        let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        while number(&pool, asleep).await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        postgres.kill();
    };
    let (answer, ()) = tokio::join!(send(&app, "/files/a", 33), committing);
    is_refused(answer, Problem::IN_DOUBT);
}

#[tokio::test]
async fn a_session_that_ends_before_its_commit_has_stored_nothing() {
    let place = with("CREATE TABLE files (id INT)").await;
    let admin = place.other();
    let handler = put(move |mut tx: Tx| async move {
        sqlx::query("INSERT INTO files VALUES (1)").execute(&mut **tx).await?;
        let id = sqlx::query_scalar::<_, i32>("SELECT pg_backend_pid()").fetch_one(&mut **tx);
        let end = sqlx::query("SELECT pg_terminate_backend($1, 10000)").bind(id.await?);
        end.execute(&admin).await?;
        Ok::<_, Refusal>("written")
    });
    let app = server(place.pool.clone(), handler);
    rolled_back_for_now(&place, &app).await;
}

/// The same request may succeed: nothing was wrong with it.
async fn rolled_back_for_now(place: &Place, app: &Router) {
    let problem = is_refused(send(app, "/files/a", 33).await, Problem::ROLLED_BACK);
    assert!(problem.detail.contains("try again"), "{}", problem.detail);
    assert_eq!(count(place).await, 0);
}

/// The server ends the session because the handler pauses for too long between two statements.
#[tokio::test]
async fn a_session_that_ends_in_a_pause_has_stored_nothing() {
    let place = with("CREATE TABLE files (id INT)").await;
    let admin = place.other();
    let handler = put(move |mut tx: Tx| async move {
        sqlx::query("INSERT INTO files VALUES (1)").execute(&mut **tx).await?;
        let id = sqlx::query_scalar::<_, i32>("SELECT pg_backend_pid()").fetch_one(&mut **tx);
        let id = id.await?;
        let limit = "SET LOCAL idle_in_transaction_session_timeout = 50";
        sqlx::query(limit).execute(&mut **tx).await?;
        let alive = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1";
        while sqlx::query_scalar::<_, i64>(alive).bind(id).fetch_one(&admin).await? > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok::<_, Refusal>("written")
    });
    let app = server(place.pool.clone(), handler);
    rolled_back_for_now(&place, &app).await;
}

#[tokio::test]
async fn a_constraint_that_is_checked_at_the_end_stores_nothing() {
    let place = with("CREATE TABLE files (id INT UNIQUE DEFERRABLE INITIALLY DEFERRED)").await;
    let app = server(place.pool.clone(), insert());
    assert_eq!(send(&app, "/files/a", 33).await.0, 200);
    is_refused(send(&app, "/files/a", 33).await, Problem::ROLLED_BACK);
    assert_eq!(count(&place).await, 1);
}

/// Two that each read what the other writes. One must fail, and the token is not to blame.
#[tokio::test]
async fn a_serialization_failure_is_a_conflict_and_not_stale() {
    let place = with("CREATE TABLE files (id INT)").await;
    let serializable = place.with(&[("default_transaction_isolation", "serializable")]);
    let barrier = Arc::new(Barrier::new(2));
    let both = Arc::clone(&barrier);
    let handler = put(move |fenced: Fenced, mut tx: Tx| async move {
        sqlx::query("SELECT count(*) FROM files").execute(&mut **tx).await?;
        if fenced.token.get() == 33 {
            both.wait().await;
        }
        sqlx::query("INSERT INTO files VALUES (1)").execute(&mut **tx).await?;
        if fenced.token.get() == 33 {
            both.wait().await;
        }
        Ok::<_, Refusal>("written")
    });
    let app = server(serializable, handler);
    let (one, two) = tokio::join!(send(&app, "/files/a", 33), send(&app, "/files/b", 33));
    let (path, (won, lost)) = match one.0.is_success() {
        true => ("/files/b", (one, two)),
        false => ("/files/a", (two, one)),
    };
    assert_eq!(won.0, 200);
    is_refused(lost, Problem::CONFLICT);
    assert_eq!(count(&place).await, 1);
    // Sent again, it passes.
    assert_eq!(send(&app, path, 34).await.0, 200);
}

/// The transaction presents what it was admitted with.
#[tokio::test]
async fn a_protected_table_takes_the_writes_of_the_request_and_no_others() {
    let place = with("CREATE TABLE files (path TEXT PRIMARY KEY, body TEXT)").await;
    Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    let handler = put(|mut tx: Tx| async move {
        sqlx::query("INSERT INTO files VALUES ('files/a', 'x')").execute(&mut **tx).await?;
        Ok::<_, Refusal>("written")
    });
    let app = server(place.pool.clone(), handler);
    assert_eq!(send(&app, "/files/a", 33).await.0, 200);
    assert_eq!(sql::highest(&place.pool, &resource()).await.unwrap(), Some(token(33)));
    assert_eq!(send(&app, "/files/b", 33).await.0, 503);
    assert_eq!(count(&place).await, 1);
}

/// Two requests that name the same resources in different orders never wait for each other.
#[tokio::test]
async fn several_resources_are_admitted_in_one_order() {
    let place = with("CREATE TABLE files (id INT)").await;
    let server = |names: [&'static str; 2]| {
        let name = move |_: &axum::http::request::Parts| {
            names.map(Resource::new).into_iter().collect::<Result<Vec<_>, _>>()
        };
        let fence = FenceLayer::new(Fence::new(MemoryMarks::default()), name);
        let layer = TransactionLayer::new(place.other());
        Router::new().route("/move", insert().route_layer(layer).route_layer(fence))
    };
    let moving = async |app: Router| {
        let mut request = Request::put("/move").body(Body::empty()).unwrap();
        let shown = ["34 a", "34 b"].map(|text| text.parse::<fencing::Sequencer>().unwrap());
        http::attach_all(request.headers_mut(), &shown);
        app.oneshot(request).await.unwrap().status().as_u16()
    };
    let waiting = async |wanted: i64| {
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while number(&place.pool, waiting).await < wanted {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    // Both are on their way when the first of their resources becomes free: the one that would have b by
    // then comes second.
    let a = Resource::new("a").unwrap();
    let older = sql::begin(&place.pool, &a, token(33)).await.unwrap();
    let one = moving(server(["a", "b"]));
    let two = async {
        waiting(1).await;
        moving(server(["b", "a"])).await
    };
    let release = async {
        waiting(2).await;
        older.commit().await.unwrap();
    };
    let (one, two, ()) = tokio::join!(one, two, release);
    assert_eq!((one, two), (200, 200));
}
