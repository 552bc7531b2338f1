//! Sessions with other settings, and how a lease leaves them.

use sqlx::Executor;

use super::place::pool;
use super::server::conflicts::{LOCK_ROW, by_hand, held_up, owner};
use super::suite::{ready, service};
use super::words;
use crate::common::*;

#[tokio::test]
async fn where_nothing_commits_by_itself_a_lease_is_committed() {
    let place = ready().await;
    let lock = SqlLock::builder(single(&place.with("SET autocommit = 0")));
    let lock = lock.ttl(Duration::from_secs(12)).budget(Duration::from_secs(6)).build().unwrap();
    let other = service(&place.other());
    let expires_at = async || sqlx::query_scalar::<_, i64>(words::EXPIRES_AT).fetch_one(&place.pool).await.unwrap();
    for _ in 0..2 {
        let lease = lock.acquire(&resource()).await.unwrap();
        held(other.try_acquire(&resource()).await);
        let granted = expires_at().await;
        lease.run(until("it is renewed", async || expires_at().await != granted)).await.unwrap();
        release(lease).await;
        let next = other.try_acquire(&resource()).await.unwrap();
        // Not by an old snapshot of its own.
        held(lock.try_acquire(&resource()).await);
        release(next).await;
    }
}

/// An interruption (`max_statement_time`, KILL QUERY) may skip the handlers of a procedure, which would have ended its
/// transaction. The pool's next user writes, and that stays. The same holds after an answer that cannot be read.
#[tokio::test]
async fn an_interrupted_procedure_leaves_no_transaction_in_the_pool() {
    let place = ready().await;
    sqlx::raw_sql("CREATE TABLE other (x INT) ENGINE = InnoDB").execute(&place.pool).await.unwrap();
    let ends = [
        ("SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = 1317, MESSAGE_TEXT = 'interrupted'", "interrupted"),
        ("SELECT 0, NULL, NULL, NULL", "token 0"),
        ("DO 0", "no rows returned"),
    ];
    for (end, said) in ends {
        let skipped = format!(
            "DROP PROCEDURE fencing_lease_acquire;
            CREATE PROCEDURE fencing_lease_acquire(
                IN a VARBINARY(1024), IN b VARBINARY(64), IN s BOOLEAN, IN c BIGINT, IN d BIGINT)
            BEGIN
                START TRANSACTION;
                {end};
            END"
        );
        sqlx::raw_sql(AssertSqlSafe(skipped)).execute(&place.pool).await.unwrap();
        let session = single(&place.with("SET autocommit = 1"));
        let id = async || sqlx::query_scalar::<_, u64>("SELECT CONNECTION_ID()").fetch_one(&session).await.unwrap();
        let before = id().await;
        let fault = fault(service(&session).try_acquire(&resource()).await);
        assert!(fault.to_string().contains(said), "{fault}");
        session.execute("INSERT INTO other VALUES (1)").await.unwrap();
        assert_ne!(id().await, before, "{said}");
        session.close().await;
    }
    let stayed = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM other");
    assert_eq!(stayed.fetch_one(&place.pool).await.unwrap(), 3, "an acknowledged write is lost");
}

#[tokio::test]
async fn a_session_is_left_as_it_was() {
    let place = ready().await;
    sqlx::query("CREATE TABLE other (x INT)").execute(&place.pool).await.unwrap();
    let settings = "SET innodb_lock_wait_timeout = 100, lock_wait_timeout = 200,
        completion_type = 'CHAIN', autocommit = 0";
    let session = single(&place.with(settings));
    // What it has left open is not committed.
    let leave_open = async || session.execute("INSERT INTO other VALUES (1)").await.unwrap();
    let other = service(&session);
    let as_it_was = async || {
        let state = "SELECT @@innodb_lock_wait_timeout, @@lock_wait_timeout, @@in_transaction";
        let state = sqlx::query_as::<_, (u64, u64, u64)>(state).fetch_one(&session).await;
        assert_eq!(state.unwrap(), (100, 200, 0));
        let committed = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM other");
        assert_eq!(committed.fetch_one(&place.pool).await.unwrap(), 0);
        leave_open().await;
    };
    leave_open().await;
    let lease = service(&session).acquire(&resource()).await.unwrap();
    as_it_was().await;
    held(other.try_acquire(&resource()).await);
    as_it_was().await;
    let renew = "CALL fencing_lease_renew('invoice/42', 'another', 1, 60000, 9)";
    sqlx::query(renew).fetch_all(&session).await.unwrap();
    as_it_was().await;
    release(lease).await;
    as_it_was().await;
    // Refused by the table: the tokens have run out.
    let mark = "INSERT INTO fencing_marks VALUES ('invoice/42', 999999999999999)";
    sqlx::query(mark).execute(&place.pool).await.unwrap();
    fault(other.try_acquire(&resource()).await);
    as_it_was().await;
}

#[tokio::test]
async fn a_session_that_has_waited_in_vain_keeps_no_lock_and_no_setting() {
    let place = ready().await;
    let session = single(&place.with("SET innodb_lock_wait_timeout = 1000"));
    let _lease = service(&session).acquire(&resource()).await.unwrap();
    let owner = owner(&place).await;
    let _by_hand = by_hand(&place, LOCK_ROW).await;
    let calls = [
        format!("CALL fencing_lease_renew('invoice/42', '{owner}', 1, 60000, 1)"),
        format!("CALL fencing_lease_release('invoice/42', '{owner}', 0, 1)"),
    ];
    for call in calls {
        let called = timeout(LONG / 2, sqlx::query(AssertSqlSafe(call)).execute(&session)).await;
        let error = called.expect("it waits for as long as the session would").unwrap_err();
        assert!(error.to_string().contains("Lock wait timeout"), "{error}");
        let state = "SELECT @@innodb_lock_wait_timeout, @@in_transaction";
        let state = sqlx::query_as::<_, (u64, u64)>(state).fetch_one(&session).await;
        assert_eq!(state.unwrap(), (1000, 0));
    }
}

#[tokio::test]
async fn no_setting_makes_another_lease_of_it() {
    let place = ready().await;
    let name = named("dätei/€");
    let settings = [
        "SET time_zone = '+13:00'",
        "SET time_zone = '-11:00'",
        "SET NAMES latin1",
        "SET sql_mode = ''",
        "SET sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,TRADITIONAL'",
    ];
    for one in settings {
        let lease = service(&place.with(one)).acquire(&name).await.unwrap();
        for other in settings {
            let retry_after = held(service(&place.with(other)).try_acquire(&name).await);
            assert!(retry_after > LONG / 2 && retry_after <= LONG, "{one} {other} {retry_after:?}");
        }
        release(lease).await;
    }
}

#[tokio::test]
async fn a_session_that_is_killed_is_no_holder() {
    let place = ready().await;
    let locks = async || release(service(&place.pool).acquire(&resource()).await.unwrap()).await;
    locks().await;
    for kill in ["KILL", "KILL QUERY"] {
        let session = single(&place.with("SET autocommit = 1"));
        let id = sqlx::query_scalar::<_, u64>("SELECT CONNECTION_ID()").fetch_one(&session).await.unwrap();
        let (lock, name) = (service(&session), resource());
        let asked = lock.try_acquire(&name);
        let (outcome, ()) = held_up(&place, LOCK_ROW, asked, async |_| {
            sqlx::query(AssertSqlSafe(format!("{kill} {id}"))).execute(&place.pool).await.unwrap();
        })
        .await;
        let cause = fault(outcome);
        assert!(matches!(cause, Fault::Disconnected(_) | Fault::NotNow(_)), "{cause:?}");
        locks().await;
    }
}

/// What a user needs who only locks is in `tests/sql/mysql/rights.rs`.
#[tokio::test]
async fn a_user_who_may_not_is_told_so() {
    let place = ready().await;
    let options = (*place.pool.connect_options()).clone();
    let user = options.get_database().unwrap();
    sqlx::query(AssertSqlSafe(format!("CREATE USER {user}@localhost"))).execute(&place.pool).await.unwrap();
    for name in [user, "nobody_at_all"] {
        let cause = fault(service(&pool(options.clone().username(name))).try_acquire(&resource()).await);
        assert!(matches!(cause, Fault::Denied(_)), "{name}: {cause:?}");
    }
}
