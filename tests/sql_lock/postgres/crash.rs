//! Connections that hang or break, a server that forgets, and a row that somebody keeps locked.

use fencing::lock::{ConnectError, NodeCause, Operator, connect};
use futures_util::future::join_all;
use sqlx::postgres::PgPoolOptions;
use sqlx::{ConnectOptions, PgPool, Postgres};
use support::postgres::PostgresServer;
use support::process;

use super::notifications::NEVER;
use super::place::served;
use super::server::conflicts::{LOCK_ROW, by_hand, nothing_waits, with_budget};
use super::server::crash::{PATIENT, service};
use super::suite::ready;
use crate::common::*;

/// A server, and a pool of one connection.
async fn single() -> (PostgresServer, PgPool, SqlLock<Postgres>) {
    let server = PostgresServer::start();
    let pool =
        PgPoolOptions::new().max_connections(1).test_before_acquire(false).connect_lazy_with(server.database().await);
    sql::migrate(&pool).await.unwrap();
    let lock = SqlLock::builder(pool.clone()).ttl(NEVER).budget(Duration::from_secs(8));
    (server, pool, lock.build().unwrap())
}

/// Stops the session of the pool: its connection hangs.
async fn stop(pool: &PgPool) -> u32 {
    let mut session: Option<i32> = None;
    until("it has a session", async || {
        session = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(pool).await.ok();
        session.is_some()
    })
    .await;
    let session = session.unwrap().try_into().unwrap();
    until("it is idle", async || pool.num_idle() > 0).await;
    process::signal(session, "STOP");
    session
}

/// The pool would wait for ever for a connection without an answer, as when the server's host fails.
#[tokio::test]
async fn a_connection_that_hangs_is_not_used_again_and_a_release_is_tried_again_over_another() {
    let (_server, pool, lock) = single().await;
    let session = stop(&pool).await;
    let health = lock.health().await;
    assert!(matches!(health.causes[..], [NodeCause { cause: Fault::TimedOut, .. }]), "{health:?}");
    let next = sqlx::query("SELECT 1").execute(&pool);
    let next = timeout(Duration::from_secs(30), next).await;
    process::signal(session, "CONT");
    next.expect("a new connection").unwrap();
    // A probe that its caller drops, as one with a shorter limit of its own does.
    let session = stop(&pool).await;
    timeout(Duration::from_millis(100), lock.health()).await.unwrap_err();
    let next = timeout(Duration::from_secs(30), sqlx::query("SELECT 1").execute(&pool)).await;
    process::signal(session, "CONT");
    next.expect("a new connection").unwrap();

    let lease = lock.acquire(&resource()).await.unwrap();
    lock.settle().await;
    let session = stop(&pool).await;
    lease.release().await.unwrap_err();
    until("it is released", async || lock.try_acquire(&resource()).await.is_ok()).await;
    process::signal(session, "CONT");
}

/// What it has left in its session is unknown.
#[tokio::test]
async fn a_connection_whose_answer_cannot_be_read_is_not_used_again() {
    let (_server, pool, lock) = single().await;
    let session = async || sqlx::query_scalar::<_, i32>("SELECT pg_backend_pid()").fetch_one(&pool).await.unwrap();
    let before = session().await;
    let answer = "CREATE OR REPLACE FUNCTION fencing_lease_acquire(the_resource text, the_owner text, shares boolean,
        lasting bigint) RETURNS TABLE (granted bigint, remaining bigint, is_shared boolean, holder text)
        LANGUAGE sql AS 'SELECT 0::bigint, NULL::bigint, NULL::boolean, NULL::text'";
    sqlx::query(answer).execute(&pool).await.unwrap();
    let cause = fault(lock.try_acquire(&resource()).await);
    assert!(matches!(&cause, Fault::InvalidReply(text) if text.contains("token 0")), "{cause:?}");
    assert_ne!(session().await, before);
}

/// An operator gets an error, and waits no longer than for a connection.
#[tokio::test]
async fn an_operator_does_not_wait_for_a_connection_that_hangs() {
    let (_server, pool, lock) = single().await;
    let _lease = lock.acquire(&resource()).await.unwrap();
    let seen = pool.leases_of(&resource()).await.unwrap();
    let asks = async |call: usize| {
        let options = pool.options().clone().acquire_timeout(PATIENT);
        let pool = options.connect_lazy_with((*pool.connect_options()).clone());
        let session = stop(&pool).await;
        let asked = async {
            match call {
                0 => pool.leases(None, 9).await.map(drop),
                1 => pool.leases_of(&resource()).await.map(drop),
                _ => pool.force_release(&seen[0]).await.map(drop),
            }
        };
        let asked = timeout(3 * PATIENT, asked).await;
        process::signal(session, "CONT");
        assert_eq!(asked, Ok(Err(Fault::TimedOut)), "{call}");
    };
    join_all((0..3).map(asks)).await;
}

/// Tokens of a table without a log go back when the server dies, whatever an earlier connect has created.
#[tokio::test]
async fn leases_that_are_not_logged_are_refused_at_each_connect() {
    let server = PostgresServer::start();
    let options = server.database().await;
    let url = options.to_url_lossy();
    connect(url.as_str()).await.unwrap();
    let unlogged = "ALTER TABLE fencing_leases SET UNLOGGED";
    sqlx::query(unlogged).execute(&mut options.connect().await.unwrap()).await.unwrap();
    for _ in 0..2 {
        let Err(ConnectError::NotReady { source, .. }) = connect(url.as_str()).await else { panic!("it is ready") };
        assert!(source.to_string().contains("fencing_leases is not logged"), "{source}");
    }
}

/// The connection breaks when the row is committed.
#[tokio::test]
async fn a_grant_whose_answer_was_lost_is_taken_back() {
    let (_server, pool) = served(&[]).await;
    let lock = SqlLock::builder(pool.clone()).ttl(LONG).budget(LONG / 3).wait(LONG / 2);
    let lock = lock.build().unwrap();
    let set = async |setting: &'static str| {
        sqlx::query(setting).execute(&pool).await.unwrap();
        sqlx::query("SELECT pg_reload_conf()").execute(&pool).await.unwrap();
    };
    // A commit waits for a standby that is not there, and its session is ended.
    let ended = async || {
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE wait_event = 'SyncRep'";
        until("a commit waits", async || sqlx::query_scalar::<_, i64>(end).fetch_one(&pool).await.unwrap() > 0).await;
    };
    set("ALTER SYSTEM SET synchronous_standby_names = 'nobody'").await;
    // The setting comes into force a little later.
    let commits = async {
        let mark = "INSERT INTO fencing_marks (resource, token) VALUES (gen_random_uuid(), 1)";
        while sqlx::query(mark).execute(&pool).await.is_ok() {}
    };
    tokio::join!(commits, ended());
    let name = resource();
    let (outcome, ()) = tokio::join!(lock.try_acquire(&name), ended());
    fault(outcome);
    set("ALTER SYSTEM RESET synchronous_standby_names").await;
    drop(lock.acquire(&resource()).await.unwrap());
}

#[tokio::test]
async fn a_grant_is_on_disk_even_where_commits_are_not() {
    let (mut server, pool) = served(&["synchronous_commit=off", "wal_writer_delay=10s"]).await;
    sqlx::query("CHECKPOINT").execute(&pool).await.unwrap();
    let lock = service(&pool, PATIENT);
    let lease = lock.acquire(&resource()).await.unwrap();
    server.kill();
    server.restart();
    let token = lease.token();
    drop(lease);
    // The connection is broken.
    let _ = sqlx::query("SELECT 1").execute(&pool).await;
    assert!(lock.acquire(&resource()).await.unwrap().token() > token);
}

#[tokio::test]
async fn a_row_that_somebody_keeps_locked_holds_no_renewal_or_release_up() {
    let place = ready().await;
    let lock = with_budget(&place.other(), Duration::from_secs(2));
    let lease = lock.acquire(&resource()).await.unwrap();
    let by_hand = by_hand(&place, LOCK_ROW).await;
    lease.renew().await.unwrap_err();
    nothing_waits(&place).await;
    lease.release().await.unwrap_err();
    nothing_waits(&place).await;
    by_hand.rollback().await.unwrap();
    // It is tried again.
    let patient = with_budget(&place.other(), LONG / 3);
    drop(timeout(LONG / 2, patient.acquire(&resource())).await.unwrap().unwrap());
}
