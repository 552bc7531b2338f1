//! Commits that fail, and what they say is stored. The HTTP layer says the same: tests/memory/http/transaction.rs.

use sqlx::{PgPool, Postgres};

use super::place::served;
use super::setup::*;

/// A transaction that has admitted a token of this file.
async fn begun(pool: &PgPool, name: &str) -> Transaction<'static, Postgres> {
    Transactions::begin(pool, &[Sequencer::new(named(name), token(33))]).await.unwrap()
}

async fn commit(tx: Transaction<'static, Postgres>) -> Result<(), CommitError> {
    <PgPool as Transactions>::commit(tx).await
}

async fn count(place: &Place) -> i64 {
    number(&place.pool, "SELECT count(*) FROM files").await
}

const INSERT: &str = "INSERT INTO files VALUES (1)";

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
    let mut tx = begun(&place.pool, "files/a").await;
    run(&mut *tx, INSERT).await;
    let error = commit(tx).await.unwrap_err();
    assert!(matches!(error, CommitError::InDoubt(_)), "{error}");
    assert_eq!(count(&place).await, 0);
}

/// The connection breaks, and nothing says why.
#[tokio::test]
async fn a_server_that_dies_in_a_commit_leaves_it_in_doubt() {
    let (mut postgres, pool) = served(&[]).await;
    run(&pool, &files_that("pg_sleep(600)")).await;
    let mut tx = begun(&pool, "files/a").await;
    run(&mut *tx, INSERT).await;
    let committing = async {
        let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        until("it commits", async || number(&pool, asleep).await > 0).await;
        postgres.kill();
    };
    let (committed, ()) = tokio::join!(commit(tx), committing);
    assert!(matches!(committed, Err(CommitError::InDoubt(_))), "{committed:?}");
}

#[tokio::test]
async fn a_constraint_that_is_checked_at_the_end_stores_nothing() {
    let place = with("CREATE TABLE files (id INT UNIQUE DEFERRABLE INITIALLY DEFERRED)").await;
    run(&place.pool, INSERT).await;
    let mut tx = begun(&place.pool, "files/a").await;
    run(&mut *tx, INSERT).await;
    let error = commit(tx).await.unwrap_err();
    assert!(matches!(error, CommitError::RolledBack(_)), "{error}");
    assert_eq!(count(&place).await, 1);
}

/// Two that each read what the other writes. One must fail, and the token is not to blame.
#[tokio::test]
async fn a_serialization_failure_is_a_conflict_and_not_stale() {
    let place = with("CREATE TABLE files (id INT)").await;
    let pool = place.at("serializable");
    let (mut one, mut two) = (begun(&pool, "files/a").await, begun(&pool, "files/b").await);
    for statement in ["SELECT count(*) FROM files", INSERT] {
        for tx in [&mut one, &mut two] {
            run(&mut **tx, statement).await;
        }
    }
    commit(one).await.unwrap();
    let error = commit(two).await.unwrap_err();
    assert!(matches!(error, CommitError::Conflict(_)), "{error}");
    assert_eq!(count(&place).await, 1);
}

/// Two that name the same resources in different orders never wait for each other.
#[tokio::test]
async fn several_resources_are_admitted_in_one_order() {
    let place = with("CREATE TABLE files (id INT)").await;
    let both = |names: [&'static str; 2]| {
        let pool = place.other();
        tokio::spawn(async move {
            let both = names.map(|name| Sequencer::new(named(name), token(34)));
            commit(Transactions::begin(&pool, &both).await.unwrap()).await
        })
    };
    // Both are on their way when the first resource becomes free: the one that would have b by then comes second.
    let older = sql::begin(&place.pool, &named("a"), token(33)).await.unwrap();
    let one = both(["a", "b"]);
    place.blocked().await;
    let two = both(["b", "a"]);
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    until("both wait", async || number(&place.pool, waiting).await == 2).await;
    older.commit().await.unwrap();
    for all in [one, two] {
        all.await.unwrap().unwrap();
    }
}

/// `is_unavailable` blames the database, and not a wrong statement, a missing right or a conflict.
#[tokio::test]
async fn codes_that_say_that_the_database_is_unavailable() {
    let place = with("CREATE TABLE files (id INT)").await;
    for (state, expected) in [("08006 08P01 25006 26000 42P05 53100 53300 57P03", true), ("42501 42601 40001", false)] {
        for state in state.split(' ') {
            let raise = format!("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{state}'; END $$");
            let error = sqlx::raw_sql(AssertSqlSafe(raise)).execute(&place.pool).await.unwrap_err();
            assert_eq!(sql::is_unavailable(&error), expected, "{error:?}");
        }
    }
}
