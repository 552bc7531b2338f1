//! A prune between the steps of a first contact, and who waits for whom.

use super::setup::*;

/// A first contact of token 33 stops before its mark is written, until the lock is free.
const TRAP: &str = "
    CREATE TRIGGER trap BEFORE INSERT ON fencing_marks FOR EACH ROW
    BEGIN
        IF NEW.token = 33 THEN DO GET_LOCK(DATABASE(), 20), RELEASE_LOCK(DATABASE()); END IF;
    END";

async fn trapped(place: &Place) {
    let waiting = "SELECT COUNT(*) FROM information_schema.processlist
        WHERE db = DATABASE() AND state = 'User lock'";
    until("somebody waits", async || number(&place.pool, waiting).await > 0).await;
}

#[tokio::test]
async fn a_floor_does_not_rise_past_who_is_about_to_create_a_mark() {
    let each_by_itself = "SET autocommit = 1";
    for &level in LEVELS.iter().chain([&each_by_itself]) {
        // There the look has locked the gap: the newer token waits.
        if level.contains("SERIALIZABLE") {
            continue;
        }
        let place = with(TRAP).await;
        let mut holder = place.pool.acquire().await.unwrap();
        run(&mut *holder, "SELECT GET_LOCK(DATABASE(), 0)").await;
        let pool = place.pool.clone();
        let old = tokio::spawn(async move {
            if level == each_by_itself {
                return attempt(&pool, "CALL fencing_hold('files/a', 33, NULL)").await;
            }
            let mut tx = pool.begin_with(level).await?;
            let admitted = sql::admit(&mut tx, &resource(), token(33)).await;
            tx.rollback().await?;
            admitted
        });
        trapped(&place).await;
        raise(&place.pool, &resource(), 34).await;
        let raised = attempt(&place.pool, "CALL fencing_raise_floor(34, FALSE)").await;
        run(&place.pool, "CALL fencing_prune(0, '', 10)").await;
        run(&mut *holder, "SELECT RELEASE_LOCK(DATABASE())").await;
        // It finds the newer mark; or it was in a deadlock with it.
        match old.await.unwrap() {
            Err(AdmitError::Stale(stale)) => assert_eq!(stale.highest, token(34)),
            Err(AdmitError::Retryable(_)) => {}
            other => panic!("{level}: {other:?}"),
        }
        retryable(raised);
        let pruned = Prune::older_than(Duration::ZERO).run(&place.pool).await.unwrap();
        assert_eq!((pruned.marks, pruned.floor), (1, Some(token(34))));
    }
}

/// By each way: in a statement that fires triggers, InnoDB takes other locks.
#[tokio::test]
async fn first_contacts_of_different_resources_and_leases_do_not_wait_for_each_other() {
    let place = with("CREATE TABLE documents (path VARCHAR(20) PRIMARY KEY)").await;
    Protect::rows("documents", "path").unwrap().apply(&place.pool).await.unwrap();
    let pool = place.impatient();
    let mut open = Vec::new();
    for path in ["a", "c", "e"] {
        let mut tx = presenting(&pool, 33).await;
        run(&mut *tx, &format!("INSERT INTO documents VALUES ('{path}')")).await;
        open.push(tx);
    }
    open.push(sql::begin(&pool, &named("g"), token(33)).await.unwrap());
    let lease = lock(&pool).try_acquire(&named("i")).await.unwrap();
    assert_eq!(lease.token(), token(1));
    // The floor waits for them, and they do not wait for it but for that moment.
    let raise = "CALL fencing_raise_floor(20, FALSE)";
    retryable(attempt(&place.pool, raise).await);
    open.push(sql::begin(&pool, &named("k"), token(33)).await.unwrap());
    for tx in open {
        tx.commit().await.unwrap();
    }
    run(&place.pool, raise).await;
}

/// The short way of `begin` holds a row or gap only while it gives it back. `FENCING_ROUNDS` sets the rounds, from 30.
#[tokio::test]
async fn first_contacts_that_meet_are_no_deadlock() {
    let place = migrated().await;
    for round in 0..rounds().max(30) {
        // New marks, and marks that rise, side by side in the index.
        let begins = (0..12_u64).map(async |client| {
            let name = named(&format!("files/{}", client % 3 + 3 * (round / 3)));
            match sql::begin(&place.pool, &name, token(12 * round + client / 3 + 1)).await {
                Ok(tx) => tx.commit().await.unwrap(),
                Err(AdmitError::Stale(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
        });
        join_all(begins).await;
    }
}

#[tokio::test]
async fn who_is_refused_by_the_floor_keeps_no_neighbour_out() {
    for &level in LEVELS {
        let place = migrated().await;
        raise(&place.pool, &resource(), 34).await;
        Prune::older_than(Duration::ZERO).run(&place.pool).await.unwrap();
        let mut refused = place.pool.begin_with(level).await.unwrap();
        stale(sql::admit(&mut refused, &named("m"), token(34)).await);
        // Under SERIALIZABLE every read locks, also that of a mark that is not there.
        if level.contains("SERIALIZABLE") {
            continue;
        }
        for name in ["l", "n"] {
            raise(&place.impatient(), &named(name), 35).await;
        }
        refused.rollback().await.unwrap();
    }
}

/// The second half of an admission, whose look came before the mark did.
async fn hold(place: &Place, level: &str, number: u64, seen: &str) -> Result<(), AdmitError> {
    let mut tx = place.pool.begin_with(AssertSqlSafe(level.to_owned())).await?;
    attempt(&mut *tx, &format!("CALL fencing_hold('files/a', {number}, {seen})")).await?;
    Ok(tx.commit().await?)
}

#[tokio::test]
async fn a_mark_that_came_after_the_look_counts_for_more_than_the_floor() {
    for &level in LEVELS {
        let place = migrated().await;
        raise(&place.pool, &resource(), 60).await;
        run(&place.pool, "CALL fencing_raise_floor(100, TRUE)").await;
        hold(&place, level, 60, "NULL").await.unwrap();
        assert_eq!(stale(hold(&place, level, 59, "NULL").await).highest, token(60));
        // It would be raised, under a snapshot that may be older than the wait for it.
        retryable(hold(&place, level, 61, "NULL").await);
        // A look that was dirty: what it saw was rolled back.
        retryable(hold(&place, level, 61, "61").await);
        hold(&place, level, 61, "60").await.unwrap();
    }
}

/// The snapshot shows a mark that was pruned, and has the newest floor.
#[tokio::test]
async fn a_mark_that_only_a_snapshot_shows_is_not_looked_for_again() {
    for &level in LEVELS {
        let place = migrated().await;
        raise(&place.pool, &resource(), 34).await;
        run(&place.pool, "CALL fencing_raise_floor(100, TRUE)").await;
        let mut old = place.pool.begin_with(level).await.unwrap();
        run(&mut *old, "SET max_statement_time = 15").await;
        run(&mut *old, "SELECT CAST(COUNT(*) AS CHAR) FROM fencing_floor").await;
        if !level.contains("SERIALIZABLE") {
            run(&place.pool, "CALL fencing_prune(0, '', 10)").await;
            assert_eq!(sql::highest(&place.pool, &resource()).await.unwrap(), None);
            stale(sql::admit(&mut old, &resource(), token(34)).await);
            stale(attempt(&mut *old, "CALL fencing_hold('files/a', 34, NULL)").await);
        }
        old.rollback().await.unwrap();
    }
}
