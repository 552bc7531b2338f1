//! Who waits for whom.

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::setup::*;

/// A database whose mark is at 33, and a pool on which a wait fails.
pub async fn at_33() -> (Arc<Place>, Pool<Db>) {
    let place = migrated().await;
    raise(&place.pool, &resource(), 33).await;
    let impatient = place.impatient();
    (Arc::new(place), impatient)
}

/// Begins with this token in a task of its own, where it waits.
pub async fn waiting(place: &Arc<Place>, number: u64) -> JoinHandle<Result<Transaction<'static, Db>, AdmitError>> {
    let pool = place.pool.clone();
    let waiting = tokio::spawn(async move { begin(&pool, number).await });
    place.blocked().await;
    waiting
}

/// Marks of a fence. On the database's own patience one such client would take all connections of the pool, one by one.
#[tokio::test]
async fn a_client_asleep_in_its_transaction_holds_up_its_own_resource_only() {
    let place = migrated().await;
    let mut asleep = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
    let pool = place.patient();
    let fence = Fence::new(SqlMarks::new(pool.clone())).limit(Duration::from_millis(500));
    let newer = (0..2 * pool.options().get_max_connections()).map(|_| {
        let fence = fence.clone();
        tokio::spawn(async move { fence.admit(&resource(), token(34)).await.map(drop) })
    });
    for newer in newer.collect::<Vec<_>>() {
        assert!(matches!(newer.await.unwrap(), Err(FenceError::Unreachable(_))));
    }
    let fence = fence.limit(Duration::from_secs(20));
    let other = async { while fence.admit(&named("other"), token(2)).await.is_err() {} };
    timeout(Duration::from_secs(60), other).await.expect("the pool is not taken");
    run(&mut *asleep, "SELECT 1").await;
    asleep.commit().await.unwrap();
    assert!(fence.admit(&resource(), token(34)).await.is_ok());
}

#[tokio::test]
async fn equal_tokens_run_side_by_side_and_a_newer_one_waits_for_all() {
    for &level in LEVELS {
        let (place, impatient) = at_33().await;
        let mut one = impatient.begin_with(level).await.unwrap();
        let mut two = impatient.begin_with(level).await.unwrap();
        for tx in [&mut one, &mut two] {
            sql::admit(tx, &resource(), token(33)).await.unwrap();
        }
        retryable(begin(&impatient, 34).await);
        let new = waiting(&place, 34).await;
        one.commit().await.unwrap();
        // The other one still holds it up.
        place.blocked().await;
        two.commit().await.unwrap();
        let new = new.await.unwrap().unwrap();
        stale(begin(&impatient, 33).await);
        new.commit().await.unwrap();
        stale(begin(&impatient, 33).await);
    }
}

/// Else a stream of equal tokens would starve it.
#[tokio::test]
async fn a_waiting_newer_token_is_not_overtaken_by_equal_ones() {
    let (place, impatient) = at_33().await;
    let one = begin(&place.pool, 33).await.unwrap();
    let new = waiting(&place, 34).await;
    retryable(begin(&impatient, 33).await);
    let mut tx = impatient.begin().await.unwrap();
    retryable(sql::admit(&mut tx, &resource(), token(33)).await);
    one.commit().await.unwrap();
    new.await.unwrap().unwrap().commit().await.unwrap();
}

#[tokio::test]
async fn one_that_waited_for_a_newer_token_is_stale_if_that_commits() {
    for (newer, commits) in [(34, true), (34, false), (36, true)] {
        let (place, _) = at_33().await;
        let new = admitted(&place.pool, newer).await;
        let old = waiting(&place, newer - 1).await;
        if commits {
            new.commit().await.unwrap();
            assert_eq!(stale(old.await.unwrap()).highest, token(newer));
        } else {
            new.rollback().await.unwrap();
            old.await.unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn a_stale_client_that_lingers_holds_nobody_up_and_other_resources_do_not_wait() {
    let (place, impatient) = at_33().await;
    // On MySQL, every read locks under SERIALIZABLE.
    let levels = LEVELS.iter().filter(|level| !level.contains("SERIALIZABLE"));
    for (&level, number) in levels.zip(34..) {
        let mut old = place.pool.begin_with(level).await.unwrap();
        stale(sql::admit(&mut old, &resource(), token(32)).await);
        raise(&impatient, &resource(), number).await;
    }
    let _one = begin(&impatient, 39).await.unwrap();
    for name in ["files/b", "files/0", "FILES/A", "files/aa"] {
        raise(&impatient, &named(name), 1).await;
    }
}

#[tokio::test]
async fn two_that_raise_what_both_hold_are_a_deadlock_and_one_goes_on() {
    let (place, _) = at_33().await;
    let mut one = begin(&place.pool, 33).await.unwrap();
    let mut two = begin(&place.pool, 33).await.unwrap();
    let (name, newer) = (resource(), token(34));
    let (first, second) = tokio::join!(sql::admit(&mut one, &name, newer), sql::admit(&mut two, &name, newer));
    let (winner, loser) = if first.is_ok() { (one, second) } else { (two, first) };
    retryable(loser);
    winner.commit().await.unwrap();
    assert_eq!(sql::highest(&place.pool, &resource()).await.unwrap(), Some(token(34)));
}

/// All who come later would wait behind it.
#[tokio::test]
async fn a_migration_does_not_wait_for_ever_and_leaves_the_session_as_it_was() {
    let place = with("DELETE FROM _fencing_migrations").await;
    let mut other = place.pool.begin().await.unwrap();
    sqlx::query(place::STOPS_MIGRATIONS).fetch_all(&mut *other).await.unwrap();
    let pool = place.patient();
    let migrate = tokio::time::timeout(Duration::from_secs(60), sql::migrate(&pool));
    let error = migrate.await.expect("it waits for ever").unwrap_err();
    assert!(matches!(error, MigrateError::Locked(_)), "{error:?}");
    number(&place.pool, "SELECT count(*) FROM fencing_marks").await;
    other.rollback().await.unwrap();
    sql::migrate(&pool).await.unwrap();
    run(&pool, "CREATE TABLE files (path VARCHAR(9))").await;
    Protect::rows("files", "path").unwrap().apply(&pool).await.unwrap();
    let mut sessions = Vec::new();
    while sessions.is_empty() || sessions.len() < pool.size() as usize {
        let mut session = pool.acquire().await.unwrap();
        let (query, patience) = place::PATIENCE;
        assert_eq!(number(&mut *session, query).await, patience);
        sessions.push(session);
    }
}

/// PostgreSQL's table of locks has no room for so many.
#[tokio::test]
async fn one_transaction_writes_thirty_thousand_resources() {
    let place = with("CREATE TABLE files (path INT PRIMARY KEY, body INT)").await;
    Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    let rows = (1..=30_000).map(|path| format!("({path}, 0)")).collect::<Vec<_>>().join(", ");
    let insert = format!("INSERT INTO files VALUES {rows}");
    let update = "UPDATE files SET body = body + 1";
    let last = named("30000");
    for (number, write) in [(34, &*insert), (34, update), (35, update)] {
        let mut tx = presenting(&place.pool, number).await;
        run(&mut *tx, write).await;
        retryable(sql::begin(&place.impatient(), &last, token(36)).await);
        tx.commit().await.unwrap();
    }
    stale(sql::begin(&place.pool, &last, token(34)).await);
    assert_eq!(number(&place.pool, "SELECT count(*) FROM fencing_marks WHERE token = 35").await, 30_000);
}
