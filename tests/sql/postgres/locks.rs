//! Who waits for whom on PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fencing::sql::{self, AdmitError};
use sqlx::PgTransaction;
use sqlx::postgres::PgPoolOptions;

use super::place::{DEFAULTS, Place};
use super::server::waits::{at_33, waiting};
use super::setup::{attempt, migrated, number, raise, run};
use crate::common::{resource, retryable, stale, token};

#[tokio::test]
async fn one_that_waited_in_the_function_is_stale_as_well() {
    let (place, _) = at_33().await;
    raise(&place.pool, &resource(), 34).await;
    let mut new = place.pool.begin().await.unwrap();
    sql::admit(&mut new, &resource(), token(36)).await.unwrap();
    let old = waiting(&place, 35).await;
    new.commit().await.unwrap();
    assert_eq!(stale(old.await.unwrap()).highest, token(36));
    assert_eq!(sql::highest(&place.pool, &resource()).await.unwrap(), Some(token(36)));
}

#[tokio::test]
async fn an_equal_token_waits_for_the_first_contact_and_follows_it() {
    for before in [false, true] {
        let place = Arc::new(migrated().await);
        if before {
            raise(&place.pool, &resource(), 33).await;
        }
        let mut one = place.pool.begin().await.unwrap();
        sql::admit(&mut one, &resource(), token(34)).await.unwrap();
        let two = waiting(&place, 34).await;
        one.commit().await.unwrap();
        // It is held as firmly as any other.
        let _two = two.await.unwrap().unwrap();
        retryable(sql::begin(&place.impatient(), &resource(), token(35)).await);
        // Also against one that takes no turn.
        retryable(attempt(&place.impatient(), "UPDATE fencing_marks SET token = 35").await);
    }
}

#[tokio::test]
async fn nobody_raises_the_mark_underneath_an_admitted_client() {
    let (place, impatient) = at_33().await;
    // Neither by hand, which takes no turn.
    let raise = async || attempt(&impatient, "UPDATE fencing_marks SET token = 34").await;
    let begun = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
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
}

#[tokio::test]
async fn begin_keeps_the_level_of_the_session() {
    let (place, _) = at_33().await;
    for &level in DEFAULTS {
        let mut tx = sql::begin(&place.at(level), &resource(), token(33)).await.unwrap();
        let shown = sqlx::query_scalar::<_, String>("SHOW transaction_isolation");
        assert_eq!(shown.fetch_one(&mut *tx).await.unwrap(), level);
    }
}

/// There a first contact takes a transaction of its own first.
#[tokio::test]
async fn a_first_contact_dropped_above_read_committed_leaves_nothing_open() {
    let (place, _) = at_33().await;
    run(&place.pool, "CREATE TABLE files (token bigint)").await;
    let options = place.at("repeatable read").connect_options();
    let single = PgPoolOptions::new().max_connections(1).connect_lazy_with((*options).clone());
    let (name, mut begun) = (resource(), false);
    for next in 34..64 {
        let begin = sql::begin(&single, &name, token(next));
        begun |= crate::common::poll((next - 33) / 2 + 1, begin).await.is_some();
        // What is written alone is written.
        let write = sqlx::query("INSERT INTO files VALUES ($1)").bind(next.cast_signed());
        write.execute(&single).await.unwrap();
        let seen = number(&place.pool, "SELECT max(token) FROM files").await;
        assert_eq!(seen, next.cast_signed());
    }
    assert!(begun);
}

#[tokio::test]
async fn a_savepoint_rolled_back_lets_the_newer_token_in() {
    let (place, impatient) = at_33().await;
    let mut tx = place.pool.begin().await.unwrap();
    let mut inner = sqlx::Connection::begin(&mut *tx).await.unwrap();
    sql::admit(&mut inner, &resource(), token(33)).await.unwrap();
    retryable(sql::begin(&impatient, &resource(), token(34)).await);
    inner.rollback().await.unwrap();
    sql::begin(&impatient, &resource(), token(34)).await.unwrap();
}

#[tokio::test]
async fn a_read_only_transaction_is_not_admitted() {
    let (place, _) = at_33().await;
    for number in [33, 34] {
        let mut tx = place.pool.begin_with("BEGIN READ ONLY").await.unwrap();
        let error = sql::admit(&mut tx, &resource(), token(number)).await.unwrap_err();
        assert!(matches!(error, AdmitError::Database(_)), "{error:?}");
    }
}

/// By the statement, and by the function.
#[tokio::test]
async fn a_stream_of_equal_tokens_does_not_starve_a_newer_one() {
    for in_sql in [false, true] {
        a_newer_one_gets_into_a_stream(in_sql).await;
    }
}

async fn begun(place: &Place, in_sql: bool, number: u64) -> Result<PgTransaction<'_>, AdmitError> {
    if in_sql {
        return sql::begin(&place.pool, &resource(), token(number)).await;
    }
    let mut tx = place.pool.begin().await?;
    sql::admit(&mut tx, &resource(), token(number)).await?;
    Ok(tx)
}

async fn a_newer_one_gets_into_a_stream(in_sql: bool) {
    let (place, _) = at_33().await;
    let admitted = Arc::new(AtomicUsize::new(0));
    // At any moment at least one of them is open.
    let stream = [0, 1, 2, 3, 4, 5].map(|number| {
        let (place, admitted) = (Arc::clone(&place), Arc::clone(&admitted));
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(10 * number)).await;
            loop {
                match begun(&place, in_sql, 33).await {
                    Ok(tx) => {
                        admitted.fetch_add(1, Ordering::SeqCst);
                        tokio::time::sleep(Duration::from_millis(55)).await;
                        tx.commit().await.unwrap();
                    }
                    Err(AdmitError::Stale(_)) => return,
                    Err(error) => panic!("{error:?}"),
                }
            }
        })
    });
    while admitted.load(Ordering::SeqCst) < 18 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut new = tokio::spawn({
        let place = Arc::clone(&place);
        async move { begun(&place, in_sql, 34).await?.commit().await.map_err(AdmitError::from) }
    });
    // It may be through before anybody has seen it wait.
    let outcome = tokio::select! {
        outcome = &mut new => outcome,
        () = place.blocked() => {
            let before = admitted.load(Ordering::SeqCst);
            let outcome = (&mut new).await;
            // Those that were in before 34 began to wait and had yet to be counted.
            assert!(admitted.load(Ordering::SeqCst) <= before + 6);
            outcome
        }
    };
    outcome.unwrap().unwrap();
    for task in stream {
        task.await.unwrap();
    }
}

/// Row locks are not fair: without a turn, a stream of clients would keep the operator out.
#[tokio::test]
async fn who_lowers_a_mark_queues_with_those_who_write() {
    let place = migrated().await;
    raise(&place.pool, &resource(), 35).await;
    let mut turn = place.pool.begin().await.unwrap();
    run(
        &mut *turn,
        "SELECT pg_advisory_xact_lock_shared(hashtextextended('files/a', 28548280319532647))",
    )
    .await;
    let mut operator = place.pool.begin().await.unwrap();
    run(&mut *operator, "SET LOCAL lock_timeout = 100").await;
    retryable(attempt(&mut *operator, "SELECT fencing_lower('files/a', 35, 34)").await);
    operator.rollback().await.unwrap();
    turn.rollback().await.unwrap();
    sql::lower(&place.pool, &resource(), token(35), token(34)).await.unwrap();
}
