//! Old marks go, and nothing stale is admitted afterwards.

use std::cell::Cell;

use fencing::sql::Pruned;

use super::snapshots::snapshot;
use super::writers::{WAYS, Way, Writer};
use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// Prunes, as often as others are in the way.
async fn pruned(place: &Place, prune: Prune) -> Pruned {
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
    pruned(place, Prune::older_than(Duration::ZERO)).await
}

/// Prunes until the marks are gone: where others were at work, some stay for the next time.
async fn until_gone(place: &Place, resource: &Resource) {
    while highest(place, resource).await.is_some() {
        prune_all(place).await;
    }
}

async fn floor(place: &Place) -> i64 {
    number(&place.pool, "SELECT token FROM fencing_floor").await
}

#[tokio::test]
async fn a_pruned_mark_still_refuses_what_it_refused() {
    let place = ready().await;
    for (name, number) in [("files/a", 34), ("files/b", 12), ("other", 20)] {
        admit(&place, &named(name), number).await.unwrap();
    }
    let plan = Prune::older_than(Duration::ZERO).look(&place.pool).await.unwrap();
    assert_eq!((plan.marks, plan.from, plan.floor), (3, None, Some(token(34))));
    assert_eq!(plan.highest, Some((b"files/a".to_vec(), token(34))));
    assert_eq!(highest(&place, &resource()).await, Some(34), "it only looked");
    assert_eq!(prune_all(&place).await, plan);
    assert_eq!(highest(&place, &resource()).await, None);
    assert_eq!(floor(&place).await, 34);

    // Those that were pruned, and those that were never seen, also without a transaction.
    let marks = SqlMarks::new(place.pool.clone());
    for (name, number) in [("files/a", 33), ("files/a", 34), ("files/b", 11), ("new", 34)] {
        let name = named(name);
        assert_eq!(stale(admit(&place, &name, number).await).highest, token(35));
        marks.raise(&name, token(number)).await.unwrap_err();
        let mut tx = place.pool.begin().await.unwrap();
        let refused = sql::admit_in_shadow(&mut tx, &name, Some(token(number))).await.unwrap();
        let refused = refused.expect("it would be refused");
        assert!(refused.contains("is stale, high water 35"), "{refused}");
        tx.commit().await.unwrap();
        assert_eq!(highest(&place, &name).await, None);
    }
    let error = place.client(&place::call("files/a", "34")).unwrap_err();
    assert!(error.contains("token 34 is stale, high water 35, resource files/a"), "{error}");
    for way in WAYS {
        let other = ready_for(way).await;
        admit(&other, &resource(), 34).await.unwrap();
        prune_all(&other).await;
        assert_eq!(stale(Writer::new(way).write(&other.pool, 34).await).highest, token(35));
    }

    // New tokens start above, and have marks of their own.
    admit(&place, &resource(), 35).await.unwrap();
    stale(admit(&place, &resource(), 34).await);
    assert_eq!(prune_all(&place).await.from, Some(token(34)));
    assert_eq!(floor(&place).await, 35);
}

#[tokio::test]
async fn a_mark_that_was_raised_lately_or_is_too_high_stays() {
    let place = ready().await;
    let forged = Token::MAX.get();
    for (name, number) in [("again", 40), ("called", 40), ("old", 34), ("forged", forged), ("high", 900)] {
        admit(&place, &named(name), number).await.unwrap();
    }
    run(&place.pool, place::OLDER).await;
    // An equal token changes nothing, a higher one makes the mark young.
    admit(&place, &named("old"), 34).await.unwrap();
    admit(&place, &named("again"), 41).await.unwrap();
    place.client(&place::call("called", "41")).unwrap();
    admit(&place, &named("young"), 50).await.unwrap();
    let old = Prune::older_than(HOUR);
    let plan = old.look(&place.pool).await.unwrap();
    assert_eq!((plan.marks, plan.floor), (2, Some(token(900))));
    let plan = old.up_to(token(800)).look(&place.pool).await.unwrap();
    assert_eq!((plan.marks, plan.floor), (1, Some(token(34))));
    assert_eq!(pruned(&place, old.up_to(token(800))).await, plan);
    assert_eq!(floor(&place).await, 34);
    let left = sql::marks(&place.pool, &[], 10).await.unwrap();
    assert!(
        left.iter().map(|mark| &*mark.name).eq(["again", "called", "forged", "high", "young"].map(str::as_bytes)),
        "{left:?}"
    );
    assert_eq!(pruned(&place, Prune::older_than(3 * HOUR)).await.marks, 0);
    assert_eq!(floor(&place).await, 34);
    // A mark below the floor is as any other.
    assert_eq!(pruned(&place, old).await.marks, 1);
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

/// Also of a lock that is shared.
#[tokio::test]
async fn leases_that_last_are_as_before_and_new_ones_are_above_the_floor() {
    let place = ready().await;
    let locks = [(), ()].map(|()| lock(&place.pool));
    let lock = &locks[0];
    admit(&place, &resource(), 34).await.unwrap();
    let held = lock.try_acquire(&named("held")).await.unwrap();
    admit(&place, held.resource(), held.token().get()).await.unwrap();
    let unwritten = lock.try_acquire(&named("unwritten")).await.unwrap();
    let shared = lock.try_acquire_shared(&named("shared")).await.unwrap();
    let gone = lock.try_acquire(&named("gone")).await.unwrap();
    gone.release().await.unwrap();
    assert_eq!(prune_all(&place).await.marks, 1);
    let joined = locks[1].try_acquire_shared(&named("shared")).await.unwrap();
    let lasting = [(held.resource(), held.token()), (unwritten.resource(), unwritten.token())];
    let parts = [&shared, &joined].map(|part| (part.resource(), part.token()));
    for (name, own) in lasting.into_iter().chain(parts) {
        assert_eq!(own, token(1), "{name}");
        admit(&place, name, 1).await.unwrap();
    }
    stale(admit(&place, &named("gone"), 1).await);
    for name in ["files/a", "gone", "never"] {
        let lease = lock.try_acquire(&named(name)).await.unwrap();
        assert_eq!(lease.token(), token(35), "{name}");
        admit(&place, lease.resource(), 35).await.unwrap();
        stale(admit(&place, lease.resource(), 34).await);
        lease.release().await.unwrap();
    }
    let part = lock.try_acquire_shared(&named("new")).await.unwrap();
    assert_eq!(part.token(), token(35));
    admit(&place, part.resource(), 35).await.unwrap();
    // Mark and row are gone, and the floor is there.
    run(&place.pool, "DELETE FROM fencing_leases WHERE resource = 'never'").await;
    until_gone(&place, &named("never")).await;
    for name in ["never", "files/a"] {
        assert_eq!(lock.try_acquire(&named(name)).await.unwrap().token(), token(36), "{name}");
    }
}

#[tokio::test]
async fn the_floor_is_guarded_as_the_marks_are() {
    let place = ready().await;
    if place::GUARD {
        run(&place.pool, &documented("## A mark that is too high")).await;
    }
    // It refuses nothing yet, and makes room for one that is restored.
    for statement in ["DELETE FROM fencing_floor", "INSERT INTO fencing_floor (token) VALUES (0)"] {
        run(&place.pool, statement).await;
    }
    for (name, number) in [("files/a", 34), ("kept", 40)] {
        admit(&place, &named(name), number).await.unwrap();
    }
    assert_eq!(pruned(&place, Prune::older_than(Duration::ZERO).up_to(token(34))).await.marks, 1);
    for statement in ["DELETE FROM fencing_marks", "UPDATE fencing_floor SET token = 33", "DELETE FROM fencing_floor"] {
        let error = attempt(&place.pool, statement).await.unwrap_err().to_string();
        assert!(error.contains("a mark is never lowered"), "{statement}: {error}");
    }
    admit(&place, &named("kept"), 40).await.unwrap();
    // What is not above the floor refuses nothing that the floor does not refuse.
    run(&place.pool, "UPDATE fencing_floor SET token = 45").await;
    run(&place.pool, "DELETE FROM fencing_marks").await;
    stale(admit(&place, &named("kept"), 45).await);
    // An operator's way back.
    let error = attempt(&place.pool, &place::lower("", 44, 34)).await.unwrap_err().to_string();
    assert!(error.contains("nothing was lowered from 44 to 34, high water 45"), "{error}");
    run(&place.pool, &place::lower("", 45, 34)).await;
    stale(admit(&place, &resource(), 34).await);
    admit(&place, &resource(), 35).await.unwrap();
    let lines = "SELECT count(*) FROM fencing_audit
        WHERE resource = '' AND to_token = 34 AND lowered_at IS NOT NULL";
    assert_eq!(number(&place.pool, lines).await, 1);
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
            let mut old = snapshot(&place.pool, level).await;
            match admit(&place, &resource(), 34).await {
                // SQLite has one writer.
                Err(AdmitError::Retryable(_)) if place::STATES.is_empty() => continue,
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
        let mut old = snapshot(&place.pool, level).await;
        match admit(&place, &named("high"), 50).await {
            Err(AdmitError::Retryable(_)) if place::STATES.is_empty() => continue,
            result => result.unwrap(),
        }
        run(&place.pool, place::OLDER).await;
        admit(&place, &resource(), 34).await.unwrap();
        assert_eq!(pruned(&place, Prune::older_than(HOUR)).await.floor, Some(token(50)));
        match sql::admit(&mut old, &resource(), token(35)).await {
            Ok(()) => old.commit().await.unwrap(),
            Err(AdmitError::Retryable(_)) => old.rollback().await.unwrap(),
            other => panic!("{level}: {other:?}"),
        }
        admit(&place, &resource(), 36).await.unwrap();
    }
}

#[tokio::test]
async fn nothing_stale_is_written_while_marks_are_pruned() {
    let rounds = rounds() / 4;
    for (&level, way) in LEVELS.iter().flat_map(|level| {
        let first = [Way::Begin, Way::Guarded].into_iter().filter(|_| *level == LEVELS[0]);
        [Way::Admit, Way::Present].into_iter().chain(first).map(move |way| (level, way))
    }) {
        let place = ready_for(way).await;
        let own = Writer { level: Some(level), ..Writer::new(way) };
        let (over, pruned) = (Cell::new(false), Cell::new(0));
        let pruning = async {
            while !over.get() {
                pruned.set(pruned.get() + prune_all(&place).await.marks);
                pause().await;
            }
        };
        let writing = async {
            let (mut refused, mut round) = (0, 0);
            // On a busy machine a prune may come late.
            while round < rounds || refused == 0 || pruned.get() == 0 {
                round += 1;
                let numbers = [10 * round + 2, 10 * round + 1, 10 * round + 1, 10 * round];
                let attempt = async |number| own.write(&place.pool, number).await;
                let done = join_all(numbers.map(|number| writer(attempt, number))).await;
                refused += done.iter().filter(|done| !**done).count();
            }
            over.set(true);
            (refused, round)
        };
        let ((), (refused, round)) = tokio::join!(pruning, writing);
        println!("{own:?}: {round} rounds, {refused} refused, {} pruned", pruned.get());
        assert_eq!(file(&place).await.1, 0, "{own:?}: a stale write was accepted");
    }
}
