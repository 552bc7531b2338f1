//! Commits that fail behind the HTTP layer, and what the client is told.

use std::sync::Arc;
use std::time::Duration;

use axum::routing::{MethodRouter, put};
use fencing::http::{Fenced, InTransaction, Problem, Refusal};
use fencing::sql::{self, Protect};
use sqlx::PgPool;
use support::postgres::PostgresServer;
use tokio::sync::Barrier;

use super::place::{Place, pool};
use super::setup::{number, run, with};
use crate::common::{named, resource, token};
use crate::service::{Answer, move_by, moving, send, server};

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

/// A table whose commits run this.
fn files_that(runs: &str) -> String {
    format!(
        "CREATE TABLE files (id INT);
        CREATE FUNCTION commits() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN PERFORM {runs}; RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER commits AFTER INSERT ON files DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION commits()"
    )
}

#[tokio::test]
async fn a_session_that_ends_in_its_commit_leaves_it_in_doubt() {
    let place = with(&files_that("pg_terminate_backend(pg_backend_pid())")).await;
    let app = server(place.pool.clone(), insert());
    let problem = is_refused(send(&app, "/files/a", 33).await, Problem::IN_DOUBT);
    assert!(problem.detail.contains("may or may not be stored"), "{}", problem.detail);
    assert_eq!(count(&place).await, 0);
    // The pool goes on.
    run(&place.pool, "ALTER TABLE files DISABLE TRIGGER commits").await;
    assert_eq!(send(&app, "/files/a", 33).await.0, 200);
    assert_eq!(count(&place).await, 1);
}

/// The connection breaks, and nothing says why.
#[tokio::test]
async fn a_server_that_dies_in_a_commit_leaves_it_in_doubt() {
    let mut postgres = PostgresServer::start();
    let pool = pool(postgres.database().await);
    sql::migrate(&pool).await.unwrap();
    run(&pool, &files_that("pg_sleep(600)")).await;
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

/// Another one ends it, or the server does, as the handler pauses for too long between two statements. The same request
/// may succeed: nothing was wrong with it.
#[tokio::test]
async fn a_session_that_ends_before_its_commit_has_stored_nothing() {
    for end in [
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1",
        "SELECT true FROM pg_stat_activity WHERE pid = $1",
    ] {
        let place = with("CREATE TABLE files (id INT)").await;
        let admin = place.other();
        let handler = put(move |mut tx: Tx| async move {
            sqlx::query("INSERT INTO files VALUES (1)").execute(&mut **tx).await?;
            let id = sqlx::query_scalar::<_, i32>("SELECT pg_backend_pid()").fetch_one(&mut **tx);
            let id = id.await?;
            if !end.contains("terminate") {
                let limit = "SET LOCAL idle_in_transaction_session_timeout = 50";
                sqlx::query(limit).execute(&mut **tx).await?;
            }
            while sqlx::query(end).bind(id).fetch_optional(&admin).await?.is_some() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok::<_, Refusal>("written")
        });
        let app = server(place.pool.clone(), handler);
        let problem = is_refused(send(&app, "/files/a", 33).await, Problem::ROLLED_BACK);
        assert!(problem.detail.contains("try again"), "{}", problem.detail);
        assert_eq!(count(&place).await, 0);
    }
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
    let both = Arc::new(Barrier::new(2));
    let handler = put(move |fenced: Fenced, mut tx: Tx| async move {
        sqlx::query("SELECT count(*) FROM files").execute(&mut **tx).await?;
        let waits = async || {
            if fenced.token.get() == 33 {
                both.wait().await;
            }
        };
        waits().await;
        sqlx::query("INSERT INTO files VALUES (1)").execute(&mut **tx).await?;
        waits().await;
        Ok::<_, Refusal>("written")
    });
    let app = server(serializable, handler);
    let (one, two) = tokio::join!(send(&app, "/files/a", 33), send(&app, "/files/b", 33));
    let first = one.0.is_success();
    let (path, won, lost) = if first { ("/files/b", one, two) } else { ("/files/a", two, one) };
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
    let moving = async |names: [&'static str; 2]| {
        let app = moving(place.other(), names, insert());
        move_by(app, ["34 a", "34 b"]).await.0.as_u16()
    };
    let waiting = async |wanted: i64| {
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while number(&place.pool, waiting).await < wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // Both are on their way when the first of their resources becomes free: the one that would have b by
    // then comes second.
    let older = sql::begin(&place.pool, &named("a"), token(33)).await.unwrap();
    let one = moving(["a", "b"]);
    let two = async {
        waiting(1).await;
        moving(["b", "a"]).await
    };
    let release = async {
        waiting(2).await;
        older.commit().await.unwrap();
    };
    let (one, two, ()) = tokio::join!(one, two, release);
    assert_eq!((one, two), (200, 200));
}
