//! Old marks go, and nothing stale is admitted afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fencing::Sequencer;
use fencing::fence::Marks;
use fencing::lock::sql::SqlLock;
use fencing::sql::{Protect, Prune, Pruned, SqlMarks};
use sqlx::AssertSqlSafe;

use super::rounds::{Way, attempt_write};
use super::*;
use crate::common::documented;

const HOUR: Duration = Duration::from_secs(3600);

fn named(name: &str) -> Resource {
    Resource::new(name).unwrap()
}

/// Prunes, as often as others are in the way.
async fn run(place: &Place, prune: Prune) -> Pruned {
    loop {
        match prune.run(&place.pool).await {
            Ok(pruned) => return pruned,
            Err(AdmitError::Retryable(_)) => pause().await,
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Prunes everything that nobody holds.
async fn prune_all(place: &Place) -> Pruned {
    run(place, Prune::older_than(Duration::ZERO)).await
}

/// Prunes until the marks are gone: where others were at work, some stay for the next time.
async fn until_gone(place: &Place, resource: &Resource) {
    while highest(place, resource).await.is_some() {
        prune_all(place).await;
    }
}

async fn execute(place: &Place, statement: &str) -> Result<(), String> {
    attempt(&place.pool, statement).await.map_err(|error| error.to_string())
}

async fn floor(place: &Place) -> i64 {
    number(&place.pool, "SELECT token FROM fencing_floor").await
}

#[tokio::test]
async fn a_pruned_mark_still_refuses_what_it_refused() {
    let place = ready().await;
    for (name, number) in [("files/a", 34), ("files/b", 12), ("whole", 20)] {
        admit(&place, &named(name), number).await.unwrap();
    }
    let plan = Prune::older_than(Duration::ZERO).look(&place.pool).await.unwrap();
    assert_eq!((plan.marks, plan.from, plan.floor), (3, None, Some(token(34))));
    assert_eq!(plan.highest, Some((b"files/a".to_vec(), token(34))));
    assert_eq!(highest(&place, &resource()).await, Some(34), "it only looked");
    assert_eq!(prune_all(&place).await, plan);
    assert_eq!(highest(&place, &resource()).await, None);
    assert_eq!(floor(&place).await, 34);

    // Those that were pruned, and those that were never seen, by each door.
    Protect::whole("files", named("whole")).unwrap().apply(&place.pool).await.unwrap();
    let marks = SqlMarks::new(place.pool.clone());
    for (name, number) in [("files/a", 33), ("files/a", 34), ("files/b", 11), ("new", 34)] {
        let name = named(name);
        assert_eq!(stale(admit(&place, &name, number).await).highest, token(35));
        stale(sql::begin(&place.pool, &name, token(number)).await);
        marks.raise(&name, token(number)).await.unwrap_err();
        let write = sql::guarded("UPDATE files SET late = late", "path = 'files/a'");
        stale(write.begin(&place.pool, &name, token(number)).await.map(drop));
        let mut tx = place.pool.begin().await.unwrap();
        let refused = sql::admit_in_shadow(&mut tx, &name, Some(token(number))).await.unwrap();
        let refused = refused.expect("it would be refused");
        assert!(refused.contains("is stale, high water 35"), "{refused}");
        tx.commit().await.unwrap();
        assert_eq!(highest(&place, &name).await, None);
    }
    let error = place.client(&place::call("files/a", "34")).unwrap_err();
    assert!(error.contains("token 34 is stale, high water 35, resource files/a"), "{error}");
    let mut tx = place.pool.begin().await.unwrap();
    sql::present(&mut tx, token(20)).await.unwrap();
    let presents = if place::STATES.is_empty() { ", fencing_token = 20" } else { "" };
    let update = AssertSqlSafe(format!("UPDATE files SET late = 1{presents}"));
    let error = sqlx::query(update).execute(&mut *tx).await.unwrap_err();
    assert_eq!(stale::<()>(Err(error.into())).highest, token(35));
    tx.rollback().await.unwrap();

    // New tokens start above, and have marks of their own.
    admit(&place, &resource(), 35).await.unwrap();
    stale(admit(&place, &resource(), 34).await);
    assert_eq!(prune_all(&place).await.from, Some(token(34)));
    assert_eq!(floor(&place).await, 35);
}

#[tokio::test]
async fn a_mark_that_was_raised_lately_or_is_too_high_stays() {
    let place = ready().await;
    for (name, number) in [("again", 40), ("old", 34), ("forged", Token::MAX.get()), ("high", 900)]
    {
        admit(&place, &named(name), number).await.unwrap();
    }
    execute(&place, place::OLDER).await.unwrap();
    // An equal token changes nothing, a higher one makes the mark young.
    admit(&place, &named("old"), 34).await.unwrap();
    admit(&place, &named("again"), 41).await.unwrap();
    admit(&place, &named("young"), 50).await.unwrap();
    let old = Prune::older_than(HOUR);
    let plan = old.look(&place.pool).await.unwrap();
    assert_eq!((plan.marks, plan.floor), (2, Some(token(900))));
    let plan = old.up_to(token(800)).look(&place.pool).await.unwrap();
    assert_eq!((plan.marks, plan.floor), (1, Some(token(34))));
    assert_eq!(run(&place, old.up_to(token(800))).await, plan);
    assert_eq!(floor(&place).await, 34);
    let left = sql::marks(&place.pool, &[], 10).await.unwrap();
    let left: Vec<_> = left.iter().map(|mark| String::from_utf8(mark.name.clone())).collect();
    let left: Vec<_> = left.into_iter().map(Result::unwrap).collect();
    assert_eq!(left, ["again", "forged", "high", "young"]);
    assert_eq!(run(&place, Prune::older_than(3 * HOUR)).await.marks, 0);
    assert_eq!(floor(&place).await, 34);
    // A mark below the floor is as any other.
    assert_eq!(run(&place, old).await.marks, 1);
    for (name, number) in [("again", 41), ("young", 50), ("young", 51)] {
        admit(&place, &named(name), number).await.unwrap();
    }
    stale(admit(&place, &named("other"), 900).await);
}

/// More than one transaction deletes.
#[tokio::test]
async fn many_marks_go_at_once() {
    let place = ready().await;
    let mut tx = place.pool.begin().await.unwrap();
    for number in 1..=2500_u64 {
        sql::admit(&mut tx, &named(&format!("it's {number}")), token(number)).await.unwrap();
    }
    tx.commit().await.unwrap();
    assert_eq!(prune_all(&place).await.marks, 2500);
    assert_eq!(sql::marks(&place.pool, &[], 1).await.unwrap(), []);
    assert_eq!(floor(&place).await, 2500);
}

#[tokio::test]
async fn leases_that_last_are_as_before_and_new_ones_are_above_the_floor() {
    let place = ready().await;
    let lock = SqlLock::new(place.pool.clone());
    admit(&place, &resource(), 34).await.unwrap();
    let held = lock.try_acquire(&named("held")).await.unwrap();
    admit(&place, held.resource(), held.token().get()).await.unwrap();
    let unwritten = lock.try_acquire(&named("unwritten")).await.unwrap();
    let gone = lock.try_acquire(&named("gone")).await.unwrap();
    assert_eq!((held.token(), unwritten.token(), gone.token()), (token(1), token(1), token(1)));
    gone.release().await.unwrap();
    assert_eq!(prune_all(&place).await.marks, 1);
    for lease in [&held, &unwritten] {
        admit(&place, lease.resource(), 1).await.unwrap();
    }
    stale(admit(&place, &named("gone"), 1).await);
    for name in ["files/a", "gone", "never"] {
        let lease = lock.try_acquire(&named(name)).await.unwrap();
        assert_eq!(lease.token(), token(35), "{name}");
        admit(&place, lease.resource(), 35).await.unwrap();
        stale(admit(&place, lease.resource(), 34).await);
        lease.release().await.unwrap();
    }
    // Mark and row are gone, and the floor is there.
    execute(&place, "DELETE FROM fencing_leases WHERE resource = 'never'").await.unwrap();
    until_gone(&place, &named("never")).await;
    assert_eq!(lock.try_acquire(&named("never")).await.unwrap().token(), token(36));
    assert_eq!(lock.try_acquire(&resource()).await.unwrap().token(), token(36));
}

#[tokio::test]
async fn a_lock_that_is_shared_goes_on_and_a_new_one_is_above_the_floor() {
    let place = ready().await;
    let locks = [(), ()].map(|()| SqlLock::new(place.pool.clone()));
    let early = locks[0].try_acquire_shared(&named("early")).await.unwrap();
    admit(&place, &resource(), 34).await.unwrap();
    assert_eq!(prune_all(&place).await.floor, Some(token(34)));
    let joined = locks[1].try_acquire_shared(&named("early")).await.unwrap();
    for lease in [&early, &joined] {
        assert_eq!(lease.token(), token(1));
        admit(&place, lease.resource(), 1).await.unwrap();
    }
    let new = locks[0].try_acquire_shared(&named("new")).await.unwrap();
    assert_eq!(new.token(), token(35));
    admit(&place, new.resource(), 35).await.unwrap();
}

#[tokio::test]
async fn the_floor_is_guarded_as_the_marks_are() {
    let place = ready().await;
    if place::GUARD {
        execute(&place, &documented("## A mark that is too high")).await.unwrap();
    }
    // It refuses nothing yet, and makes room for one that is restored.
    for statement in ["DELETE FROM fencing_floor", "INSERT INTO fencing_floor (token) VALUES (0)"] {
        execute(&place, statement).await.unwrap();
    }
    for (name, number) in [("files/a", 34), ("kept", 40)] {
        admit(&place, &named(name), number).await.unwrap();
    }
    let up_to = Prune::older_than(Duration::ZERO).up_to(token(34));
    assert_eq!(run(&place, up_to).await.marks, 1);
    for statement in [
        "DELETE FROM fencing_marks",
        "UPDATE fencing_floor SET token = 33",
        "DELETE FROM fencing_floor",
    ] {
        let error = execute(&place, statement).await.unwrap_err();
        assert!(error.contains("a mark is never lowered"), "{statement}: {error}");
    }
    admit(&place, &named("kept"), 40).await.unwrap();
    // What is not above the floor refuses nothing that the floor does not refuse.
    execute(&place, "UPDATE fencing_floor SET token = 45").await.unwrap();
    execute(&place, "DELETE FROM fencing_marks").await.unwrap();
    stale(admit(&place, &named("kept"), 45).await);
    // An operator's way back.
    let error = execute(&place, &place::lower("", 44, 34)).await.unwrap_err();
    assert!(error.contains("nothing was lowered from 44 to 34, high water 45"), "{error}");
    execute(&place, &place::lower("", 45, 34)).await.unwrap();
    stale(admit(&place, &resource(), 34).await);
    admit(&place, &resource(), 35).await.unwrap();
    let lines = "SELECT to_token FROM fencing_audit WHERE resource = '' AND lowered_at IS NOT NULL";
    let lines = sqlx::query_scalar::<_, i64>(lines).fetch_all(&place.pool).await.unwrap();
    assert_eq!(lines, [34]);
}

#[tokio::test]
async fn without_its_floor_a_database_admits_nobody_to_a_new_resource() {
    let place = ready().await;
    admit(&place, &resource(), 34).await.unwrap();
    for statement in place::DROP_FLOOR {
        execute(&place, statement).await.unwrap();
    }
    admit(&place, &resource(), 35).await.unwrap();
    let error = admit(&place, &named("other"), 34).await.unwrap_err();
    assert!(!matches!(error, AdmitError::Stale(_) | AdmitError::Retryable(_)), "{error:?}");
    // A lease would start at 1.
    let lock = SqlLock::new(place.pool.clone());
    lock.try_acquire(&named("other")).await.unwrap_err();
    lock.try_acquire_shared(&named("other")).await.unwrap_err();
    Prune::older_than(Duration::ZERO).look(&place.pool).await.unwrap_err();
}

/// It has a snapshot from before the newer token came, and writes when the newer token's mark is gone.
#[tokio::test]
async fn an_old_snapshot_does_not_bring_a_stale_token_in() {
    for &level in LEVELS {
        for before in [None, Some(32), Some(33)] {
            let place = ready().await;
            if let Some(before) = before {
                admit(&place, &resource(), before).await.unwrap();
            }
            let mut old = place.pool.begin_with(level).await.unwrap();
            let look = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM files");
            look.fetch_one(&mut *old).await.unwrap();
            match admit(&place, &resource(), 34).await {
                // SQLite has one writer.
                Err(AdmitError::Retryable(_)) if level.starts_with("BEGIN ") => continue,
                result => result.unwrap(),
            }
            assert_eq!(prune_all(&place).await.marks, 1);
            match sql::admit(&mut old, &resource(), token(33)).await {
                Err(AdmitError::Stale(stale)) => assert!(stale.highest > token(33), "{stale}"),
                Err(AdmitError::Retryable(_)) => {}
                other => panic!("{level}, mark {before:?}: {other:?}"),
            }
            old.rollback().await.unwrap();
            stale(admit(&place, &resource(), 33).await);
        }
    }
}

/// The mark came after the snapshot, and so did a floor above it.
#[tokio::test]
async fn a_mark_that_a_snapshot_does_not_show_counts_for_more_than_the_floor() {
    for &level in LEVELS {
        let place = ready().await;
        let mut old = place.pool.begin_with(level).await.unwrap();
        let look = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM files");
        look.fetch_one(&mut *old).await.unwrap();
        match admit(&place, &named("high"), 50).await {
            Err(AdmitError::Retryable(_)) if level.starts_with("BEGIN ") => continue,
            result => result.unwrap(),
        }
        execute(&place, place::OLDER).await.unwrap();
        admit(&place, &resource(), 34).await.unwrap();
        assert_eq!(run(&place, Prune::older_than(HOUR)).await.floor, Some(token(50)));
        match sql::admit(&mut old, &resource(), token(35)).await {
            Ok(()) => old.commit().await.unwrap(),
            Err(AdmitError::Retryable(_)) => old.rollback().await.unwrap(),
            other => panic!("{level}: {other:?}"),
        }
        admit(&place, &resource(), 36).await.unwrap();
    }
}

/// Writes until it is through or stale. Returns whether it was stale.
async fn writer(place: Arc<Place>, level: &'static str, way: Way, number: u64) -> bool {
    let own = Sequencer::new(resource(), token(number));
    loop {
        pause().await;
        match attempt_write(&place.pool, Some(level), &own, way, way == Way::Present).await {
            Err(AdmitError::Retryable(_)) => {}
            Err(AdmitError::Stale(_)) => return true,
            Ok(()) => return false,
            Err(error) => panic!("{level}: {error:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_stale_is_written_while_marks_are_pruned() {
    let rounds = crate::rounds::rounds() / 4;
    for (&level, way) in LEVELS.iter().flat_map(|level| {
        let first = [Way::Begin, Way::Guarded].into_iter().filter(|_| *level == LEVELS[0]);
        [Way::Admit, Way::Present].into_iter().chain(first).map(move |way| (level, way))
    }) {
        let place = Arc::new(ready().await);
        if way == Way::Present {
            Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
        }
        let (over, pruned) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let pruner = tokio::spawn({
            let (place, over, pruned) =
                (Arc::clone(&place), Arc::clone(&over), Arc::clone(&pruned));
            async move {
                while !over.load(Ordering::SeqCst) {
                    pruned.fetch_add(prune_all(&place).await.marks, Ordering::SeqCst);
                    pause().await;
                }
            }
        });
        let (mut refused, mut round) = (0, 0);
        // On a busy machine a prune may come late.
        while round < rounds || refused == 0 || pruned.load(Ordering::SeqCst) == 0 {
            round += 1;
            let numbers = [10 * round + 2, 10 * round + 1, 10 * round + 1, 10 * round];
            let writers =
                numbers.map(|own| tokio::spawn(writer(Arc::clone(&place), level, way, own)));
            for writer in writers {
                refused += u64::from(writer.await.unwrap());
            }
        }
        over.store(true, Ordering::SeqCst);
        pruner.await.unwrap();
        let pruned = pruned.load(Ordering::SeqCst);
        println!("{level}, {way:?}: {round} rounds, {refused} refused, {pruned} pruned");
        assert_eq!(file(&place).await.1, 0, "{level}, {way:?}: a stale write was accepted");
    }
}
