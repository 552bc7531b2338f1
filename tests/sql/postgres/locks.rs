//! Who waits for whom on PostgreSQL.

use sqlx::PgConnection;

use super::server::waits::{at_33, waiting};
use super::setup::*;

#[tokio::test]
async fn an_equal_token_waits_for_the_first_contact_and_follows_it() {
    for before in [false, true] {
        let place = Arc::new(migrated().await);
        if before {
            raise(&place.pool, &resource(), 33).await;
        }
        let one = admitted(&place.pool, 34).await;
        let two = waiting(&place, 34).await;
        one.commit().await.unwrap();
        // It is held as firmly as any other.
        let _two = two.await.unwrap().unwrap();
        retryable(begin(&place.impatient(), 35).await);
        // Also against one that takes no turn.
        retryable(attempt(&place.impatient(), "UPDATE fencing_marks SET token = 35").await);
    }
}

#[tokio::test]
async fn nobody_raises_the_mark_underneath_an_admitted_client_and_begin_keeps_the_level_of_the_session() {
    let (place, impatient) = at_33().await;
    // Neither by hand, which takes no turn.
    let raise = async || attempt(&impatient, "UPDATE fencing_marks SET token = 34").await;
    let begun = begin(&place.pool, 33).await.unwrap();
    retryable(raise().await);
    begun.rollback().await.unwrap();
    for in_sql in [false, true] {
        let mut tx = place.pool.begin().await.unwrap();
        match in_sql {
            true => run(&mut *tx, "SELECT fencing_admit('files/a', 33)").await,
            false => sql::admit(&mut tx, &resource(), token(33)).await.unwrap(),
        }
        retryable(raise().await);
        tx.rollback().await.unwrap();
    }
    raise().await.unwrap();
    for &level in place::DEFAULTS {
        let mut tx = begin(&place.at(level), 34).await.unwrap();
        let shown = sqlx::query_scalar::<_, String>("SHOW transaction_isolation");
        assert_eq!(shown.fetch_one(&mut *tx).await.unwrap(), level);
    }
}

/// Row locks are not fair: without a turn, a stream of clients would keep the operator out.
#[tokio::test]
async fn who_lowers_a_mark_queues_with_those_who_write() {
    let place = migrated().await;
    raise(&place.pool, &resource(), 35).await;
    let mut turn = place.pool.begin().await.unwrap();
    let lock = "SELECT pg_advisory_xact_lock_shared(hashtextextended('files/a', 28548280319532647))";
    run(&mut *turn, lock).await;
    let mut operator = place.pool.begin().await.unwrap();
    run(&mut *operator, "SET LOCAL lock_timeout = 100").await;
    retryable(attempt(&mut *operator, "SELECT fencing_lower('files/a', 35, 34)").await);
    operator.rollback().await.unwrap();
    turn.rollback().await.unwrap();
    sql::lower(&place.pool, &resource(), token(35), token(34)).await.unwrap();
}

/// The pool could give the connection to another one, inside of the failed transaction.
#[tokio::test]
async fn a_write_that_fails_with_its_admission_is_rolled_back_before_that_is_said() {
    let place = ready().await;
    raise(&place.pool, &resource(), 34).await;
    let write = sql::guarded("UPDATE files SET token = 1 / late", "path = 'files/a'");
    write.begin(&place.pool, &resource(), token(34)).await.unwrap_err();
    let options = place.pool.connect_options();
    // This runtime does nothing meanwhile.
    let open = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let open = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
            let mut conn = PgConnection::connect_with(&options).await.unwrap();
            number(&mut conn, open).await
        })
    });
    assert_eq!(open.join().unwrap(), 0);
}
