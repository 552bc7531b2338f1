//! A prune between the steps of a first contact. Nobody waits for the other.

use super::setup::*;

/// A first contact of token 33 stops before its mark is written, until the lock 7 is free.
const TRAP: &str = "
    CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.token = 33 THEN PERFORM pg_advisory_xact_lock_shared(7); END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER trap BEFORE INSERT ON fencing_marks FOR EACH ROW EXECUTE FUNCTION trap()";

const ALL: Duration = Duration::ZERO;

#[tokio::test]
async fn a_mark_that_came_and_went_before_the_first_contact_is_over_refuses_it() {
    for &level in LEVELS {
        let place = with(TRAP).await;
        let mut holder = place.pool.acquire().await.unwrap();
        run(&mut *holder, "SELECT pg_advisory_lock(7)").await;
        let pool = place.pool.clone();
        let old = tokio::spawn(async move {
            let mut tx = pool.begin_with(level).await?;
            // As after 32 admissions: it takes no turn, and the newer token does not queue behind it.
            run(&mut *tx, "SET LOCAL fencing.turns = '32'").await;
            let admitted = sql::admit(&mut tx, &resource(), token(33)).await;
            tx.rollback().await?;
            admitted
        });
        place.blocked().await;
        raise(&place.pool, &resource(), 34).await;
        let pruned = Prune::older_than(ALL).run(&place.pool).await.unwrap();
        assert_eq!((pruned.marks, pruned.floor), (1, Some(token(34))));
        run(&mut *holder, "SELECT pg_advisory_unlock(7)").await;
        match old.await.unwrap() {
            Err(AdmitError::Stale(stale)) if level == LEVELS[0] => {
                assert_eq!(stale.highest, token(35));
            }
            Err(AdmitError::Retryable(_)) if level != LEVELS[0] => {}
            other => panic!("{level}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn neither_waits_for_the_other() {
    for &level in LEVELS {
        let place = migrated().await;
        for (name, number) in [("old", 50), ("held", 40)] {
            raise(&place.pool, &named(name), number).await;
        }
        let begin = async |name: &str, number| {
            let mut tx = place.impatient().begin_with(level).await.unwrap();
            sql::admit(&mut tx, &named(name), token(number)).await.map(|()| tx)
        };
        let held = begin("held", 40).await.unwrap();
        let first = begin("first", 33).await.unwrap();
        let pruned = Prune::older_than(ALL).run(&place.impatient()).await.unwrap();
        assert_eq!((pruned.marks, pruned.floor), (1, Some(token(50))), "{level}: one is held");
        // A prune that is not over.
        let mut prune = place.pool.begin().await.unwrap();
        run(&mut *prune, "SELECT fencing_prune(0, '', 10)").await;
        drop(begin("third", 51).await.unwrap());
        prune.commit().await.unwrap();
        held.commit().await.unwrap();
        match first.commit().await {
            // What was admitted before the floor rose has its mark.
            Ok(()) => drop(begin("first", 33).await.unwrap()),
            // Both orders of the two are ruled out, as PostgreSQL sees it.
            Err(error) => {
                assert!(level.contains("SERIALIZABLE"), "{error}");
                retryable(Err::<(), _>(AdmitError::from(error)));
            }
        }
        stale(begin("fourth", 50).await);
    }
}

/// At each level a mark that has moved would fail the statement; a temporary table would come first.
#[tokio::test]
async fn marks_are_pruned_whatever_the_path_and_the_level_of_the_session_are() {
    let place = migrated().await;
    raise(&place.pool, &resource(), 34).await;
    let pool = single(&place.at("serializable"));
    let temporary = "CREATE TEMPORARY TABLE fencing_marks (resource text PRIMARY KEY, token bigint);
        CREATE TEMPORARY TABLE fencing_floor (token bigint);
        INSERT INTO fencing_floor VALUES (0)";
    run(&pool, temporary).await;
    let pruned = Prune::older_than(ALL).run(&pool).await.unwrap();
    assert_eq!((pruned.marks, pruned.floor), (1, Some(token(34))));
    for pool in [&pool, &place.pool] {
        stale(begin(pool, 34).await);
    }
    begin(&pool, 35).await.unwrap();
}

/// One that was lowered meanwhile would not refuse what the deleted marks did.
#[tokio::test]
async fn the_floor_is_not_lowered_while_marks_are_deleted() {
    let place = migrated().await;
    raise(&place.pool, &resource(), 34).await;
    run(&place.pool, "SELECT fencing_raise_floor(34)").await;
    let lower = async || attempt(&place.impatient(), "SELECT fencing_lower('', 34, 10)").await;
    let error = attempt(&place.pool, "TRUNCATE fencing_floor").await.unwrap_err();
    assert!(error.to_string().contains("a mark is never lowered"), "{error}");
    let mut prune = place.pool.begin().await.unwrap();
    run(&mut *prune, "SELECT fencing_prune(0, '', 10)").await;
    retryable(lower().await);
    prune.commit().await.unwrap();
    lower().await.unwrap();
}

/// A lease that lasts gets its mark before the floor rises.
#[tokio::test]
async fn a_floor_waits_for_who_has_created_the_mark_of_a_lease() {
    let place = migrated().await;
    let lease = lock(&place.pool).try_acquire(&resource()).await.unwrap();
    let mut open = place.pool.begin().await.unwrap();
    sql::admit(&mut open, &resource(), lease.token()).await.unwrap();
    let raise = async || attempt(&place.impatient(), "SELECT fencing_raise_floor(34)").await;
    retryable(raise().await);
    open.commit().await.unwrap();
    raise().await.unwrap();
    sql::begin(&place.pool, &resource(), lease.token()).await.unwrap();
}

#[tokio::test]
async fn a_floor_that_rises_twice_at_once_is_retryable_and_not_stale() {
    let place = with(TRAP).await;
    let lease = lock(&place.pool).try_acquire(&resource()).await.unwrap();
    run(&place.pool, "UPDATE fencing_leases SET token = 33").await;
    let mut holder = place.pool.acquire().await.unwrap();
    run(&mut *holder, "SELECT pg_advisory_lock(7)").await;
    let pool = place.pool.clone();
    let raise = tokio::spawn(async move { attempt(&pool, "SELECT fencing_raise_floor(40)").await });
    place.blocked().await;
    run(&place.pool, "UPDATE fencing_floor SET token = 40").await;
    run(&mut *holder, "SELECT pg_advisory_unlock(7)").await;
    retryable(raise.await.unwrap());
    drop(lease);
}
