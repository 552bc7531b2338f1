//! Who waits for whom on PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fencing::sql::{self, AdmitError};
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, PgTransaction};

use super::place::{LEVELS, Place};
use crate::common::{resource, retryable, stale, token};

/// A database whose mark is at 33, and a pool on which a wait fails.
async fn at_33() -> (Place, PgPool) {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    let tx = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
    tx.commit().await.unwrap();
    let bounded = place.with(&[("lock_timeout", "200ms")]);
    (place, bounded)
}

#[tokio::test]
async fn equal_tokens_run_side_by_side_and_a_newer_one_waits_for_all() {
    for &level in LEVELS {
        let (place, bounded) = at_33().await;
        let mut one = bounded.begin_with(level).await.unwrap();
        let mut two = bounded.begin_with(level).await.unwrap();
        sql::admit(&mut one, &resource(), token(33)).await.unwrap();
        sql::admit(&mut two, &resource(), token(33)).await.unwrap();
        retryable(sql::begin(&bounded, &resource(), token(34)).await);
        let place = Arc::new(place);
        let new = tokio::spawn({
            let place = Arc::clone(&place);
            async move { sql::begin(&place.pool, &resource(), token(34)).await }
        });
        place.blocked().await;
        one.commit().await.unwrap();
        retryable(sql::begin(&bounded, &resource(), token(34)).await);
        assert!(!new.is_finished());
        two.commit().await.unwrap();
        let new = new.await.unwrap().unwrap();
        stale(sql::begin(&bounded, &resource(), token(33)).await);
        new.commit().await.unwrap();
        stale(sql::begin(&bounded, &resource(), token(33)).await);
    }
}

#[tokio::test]
async fn one_that_waited_for_a_newer_token_is_stale_if_that_commits() {
    for commits in [true, false] {
        let (place, _) = at_33().await;
        let place = Arc::new(place);
        let mut new = place.pool.begin().await.unwrap();
        sql::admit(&mut new, &resource(), token(34)).await.unwrap();
        let old = tokio::spawn({
            let place = Arc::clone(&place);
            async move { sql::begin(&place.pool, &resource(), token(33)).await }
        });
        place.blocked().await;
        if commits {
            new.commit().await.unwrap();
            assert_eq!(stale(old.await.unwrap()).highest, token(34));
        } else {
            new.rollback().await.unwrap();
            old.await.unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn one_that_waited_in_the_function_is_stale_as_well() {
    let (place, _) = at_33().await;
    let place = Arc::new(place);
    sql::begin(&place.pool, &resource(), token(34)).await.unwrap().commit().await.unwrap();
    let mut new = place.pool.begin().await.unwrap();
    sql::admit(&mut new, &resource(), token(36)).await.unwrap();
    let old = tokio::spawn({
        let place = Arc::clone(&place);
        async move { Ok(sql::begin(&place.pool, &resource(), token(35)).await?.commit().await?) }
    });
    place.blocked().await;
    new.commit().await.unwrap();
    assert_eq!(stale(old.await.unwrap()).highest, token(36));
    assert_eq!(sql::highest(&place.pool, &resource()).await.unwrap(), Some(token(36)));
}

#[tokio::test]
async fn an_equal_token_waits_for_the_first_contact_and_follows_it() {
    for before in [false, true] {
        let place = Arc::new(Place::empty().await);
        sql::migrate(&place.pool).await.unwrap();
        if before {
            let tx = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
            tx.commit().await.unwrap();
        }
        let mut one = place.pool.begin().await.unwrap();
        sql::admit(&mut one, &resource(), token(34)).await.unwrap();
        let two = tokio::spawn({
            let place = Arc::clone(&place);
            async move { sql::begin(&place.pool, &resource(), token(34)).await }
        });
        place.blocked().await;
        one.commit().await.unwrap();
        // It is held as firmly as any other.
        let _two = two.await.unwrap().unwrap();
        retryable(sql::begin(&place.impatient(), &resource(), token(35)).await);
        // Also against one that takes no turn.
        let raise = sqlx::query("UPDATE fencing_marks SET token = 35");
        let error = raise.execute(&place.impatient()).await.unwrap_err();
        assert!(sql::is_retryable(&error), "{error}");
    }
}

#[tokio::test]
async fn nobody_raises_the_mark_underneath_whoever_is_admitted() {
    let (place, bounded) = at_33().await;
    // Neither by hand, which takes no turn.
    let raise = || sqlx::query("UPDATE fencing_marks SET token = 34").execute(&bounded);
    for way in 0..3 {
        let mut tx = match way {
            0 => sql::begin(&place.pool, &resource(), token(33)).await.unwrap(),
            _ => place.pool.begin().await.unwrap(),
        };
        match way {
            0 => {}
            1 => sql::admit(&mut tx, &resource(), token(33)).await.unwrap(),
            _ => {
                let call = sqlx::query("SELECT fencing_admit('files/a', 33)");
                call.execute(&mut *tx).await.unwrap();
            }
        }
        assert!(sql::is_retryable(&raise().await.unwrap_err()), "way {way}");
        tx.rollback().await.unwrap();
    }
    raise().await.unwrap();
}

/// The row of the mark does not tell that 33 wrote: only when the snapshot was taken does.
#[tokio::test]
async fn whoever_waited_reads_what_was_written_meanwhile() {
    for level in ["read committed", "repeatable read", "serializable"] {
        let (place, _) = at_33().await;
        sqlx::raw_sql("CREATE TABLE files (body text); INSERT INTO files VALUES ('old')")
            .execute(&place.pool)
            .await
            .unwrap();
        let pool = place.with(&[("default_transaction_isolation", level)]);
        let mut old = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
        let new = tokio::spawn(async move {
            let mut new = sql::begin(&pool, &resource(), token(34)).await.unwrap();
            let read = "SELECT body || ' ' || current_setting('transaction_isolation') FROM files";
            sqlx::query_scalar::<_, String>(read).fetch_one(&mut *new).await.unwrap()
        });
        place.blocked().await;
        sqlx::query("UPDATE files SET body = 'new'").execute(&mut *old).await.unwrap();
        old.commit().await.unwrap();
        assert_eq!(new.await.unwrap(), format!("new {level}"));
    }
}

/// There a first contact takes a transaction of its own first.
#[tokio::test]
async fn a_first_contact_dropped_above_read_committed_leaves_nothing_open() {
    let (place, _) = at_33().await;
    sqlx::query("CREATE TABLE files (token bigint)").execute(&place.pool).await.unwrap();
    let options = (*place.pool.connect_options()).clone();
    let options = options.options([("default_transaction_isolation", "repeatable read")]);
    let single = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
    let (name, mut begun) = (resource(), false);
    for number in 34..64 {
        let begin = sql::begin(&single, &name, token(number));
        begun |= crate::common::poll((number - 33) / 2 + 1, begin).await.is_some();
        // What is written alone is written.
        let write = sqlx::query("INSERT INTO files VALUES ($1)").bind(number.cast_signed());
        write.execute(&single).await.unwrap();
        let seen = sqlx::query_scalar::<_, i64>("SELECT max(token) FROM files");
        assert_eq!(seen.fetch_one(&place.pool).await.unwrap(), number.cast_signed());
    }
    assert!(begun);
}

#[tokio::test]
async fn other_resources_do_not_wait() {
    let (_place, bounded) = at_33().await;
    let _one = sql::begin(&bounded, &resource(), token(34)).await.unwrap();
    let other = fencing::Resource::new("files/b").unwrap();
    let _two = sql::begin(&bounded, &other, token(1)).await.unwrap();
}

#[tokio::test]
async fn a_stale_client_that_lingers_holds_nobody_up() {
    let (_place, bounded) = at_33().await;
    let mut old = bounded.begin().await.unwrap();
    assert_eq!(stale(sql::admit(&mut old, &resource(), token(32)).await).highest, token(33));
    sql::begin(&bounded, &resource(), token(34)).await.unwrap().commit().await.unwrap();
}

#[tokio::test]
async fn two_that_raise_what_both_hold_are_a_deadlock_and_one_goes_on() {
    let (place, _) = at_33().await;
    let mut one = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
    let mut two = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
    let (name, newer) = (resource(), token(34));
    let (first, second) =
        tokio::join!(sql::admit(&mut one, &name, newer), sql::admit(&mut two, &name, newer));
    let (winner, loser) = if first.is_ok() { (one, second) } else { (two, first) };
    retryable(loser);
    winner.commit().await.unwrap();
    assert_eq!(sql::highest(&place.pool, &resource()).await.unwrap(), Some(token(34)));
}

#[tokio::test]
async fn a_savepoint_rolled_back_lets_the_newer_token_in() {
    let (place, bounded) = at_33().await;
    let mut tx = place.pool.begin().await.unwrap();
    let mut inner = sqlx::Connection::begin(&mut *tx).await.unwrap();
    sql::admit(&mut inner, &resource(), token(33)).await.unwrap();
    retryable(sql::begin(&bounded, &resource(), token(34)).await);
    inner.rollback().await.unwrap();
    sql::begin(&bounded, &resource(), token(34)).await.unwrap();
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
    let place = Arc::new(place);
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

/// The lock of another migration, and one of the application on what is to be changed.
#[tokio::test]
async fn a_migration_does_not_wait_for_ever_and_leaves_the_session_as_it_was() {
    let place = Place::empty().await;
    let mut other = place.pool.begin().await.unwrap();
    let lock = sqlx::query("SELECT pg_advisory_xact_lock(28821972413148775)");
    lock.execute(&mut *other).await.unwrap();
    let pool = place.patient();
    let migrate = tokio::time::timeout(Duration::from_secs(60), sql::migrate(&pool));
    let error = migrate.await.expect("it waits for ever").unwrap_err();
    assert!(matches!(error, sql::MigrateError::Locked(_)), "{error:?}");
    other.rollback().await.unwrap();
    sql::migrate(&pool).await.unwrap();
    sqlx::raw_sql("CREATE TABLE files (path text)").execute(&pool).await.unwrap();
    sql::Protect::rows("files", "path").unwrap().apply(&pool).await.unwrap();
    let mut sessions = Vec::new();
    while sessions.len() < pool.size() as usize {
        let mut session = pool.acquire().await.unwrap();
        let shown = sqlx::query_scalar::<_, String>("SHOW lock_timeout");
        assert_eq!(shown.fetch_one(&mut *session).await.unwrap(), "0");
        sessions.push(session);
    }
}

/// Row locks are not fair: without a turn, a stream of clients would keep the operator out.
#[tokio::test]
async fn who_lowers_a_mark_queues_with_those_who_write() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    sql::begin(&place.pool, &resource(), token(35)).await.unwrap().commit().await.unwrap();
    let mut turn = place.pool.begin().await.unwrap();
    let lock =
        "SELECT pg_advisory_xact_lock_shared(hashtextextended('files/a', 28548280319532647))";
    sqlx::query(lock).execute(&mut *turn).await.unwrap();
    let mut operator = place.pool.begin().await.unwrap();
    sqlx::query("SET LOCAL lock_timeout = 100").execute(&mut *operator).await.unwrap();
    let lower = sqlx::query("SELECT fencing_lower('files/a', 35, 34)");
    let error = lower.execute(&mut *operator).await.unwrap_err();
    assert!(sql::is_retryable(&error), "{error}");
    operator.rollback().await.unwrap();
    turn.rollback().await.unwrap();
    sql::lower(&place.pool, &resource(), token(35), token(34)).await.unwrap();
}
