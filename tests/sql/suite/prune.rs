//! Old marks go, and nothing stale is admitted afterwards.

use std::sync::Arc;
use std::time::Duration;

use fencing::fence::Marks;
use fencing::lock::sql::SqlLock;
use fencing::sql::{Protect, Prune, Pruned, SqlMarks};

use super::*;

fn named(name: &str) -> Resource {
    Resource::new(name).unwrap()
}

/// Prunes everything that nobody holds, as often as others are in the way.
async fn prune_all(place: &Place) -> Pruned {
    loop {
        match Prune::older_than(Duration::ZERO).run(&place.pool).await {
            Ok(pruned) => return pruned,
            Err(AdmitError::Retryable(_)) => pause().await,
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[tokio::test]
async fn a_pruned_mark_still_refuses_what_it_refused() {
    let place = ready().await;
    Protect::whole("files", named("whole")).unwrap().apply(&place.pool).await.unwrap();
    let lock = SqlLock::new(place.pool.clone());
    for (name, number) in [("files/a", 34), ("files/b", 12), ("whole", 20)] {
        admit(&place, &named(name), number).await.unwrap();
    }
    let (held, unwritten) = (named("held"), named("unwritten"));
    let held = lock.try_acquire(&held).await.unwrap();
    admit(&place, held.resource(), held.token().get()).await.unwrap();
    let unwritten = lock.try_acquire(&unwritten).await.unwrap();
    let gone = lock.try_acquire(&named("gone")).await.unwrap();
    assert_eq!((held.token(), gone.token()), (token(1), token(1)));
    gone.release().await.unwrap();

    let young = Prune::older_than(Duration::from_secs(3600));
    assert_eq!(young.run(&place.pool).await.unwrap().marks, 0);
    let low = Prune::older_than(Duration::ZERO).below(token(13)).look(&place.pool).await.unwrap();
    assert_eq!((low.marks, low.floor), (1, token(13)));
    let plan = Prune::older_than(Duration::ZERO).look(&place.pool).await.unwrap();
    assert_eq!((plan.marks, plan.from, plan.floor), (3, token(1), token(35)));
    assert_eq!(plan.highest, Some(("files/a".to_owned(), token(34))));
    assert_eq!(highest(&place, &resource()).await, Some(34));
    assert_eq!(prune_all(&place).await, plan);
    assert_eq!(highest(&place, &resource()).await, None);

    // Those that were pruned, and those that were never seen.
    let marks = SqlMarks::new(place.pool.clone());
    for (name, number) in [("files/a", 33), ("files/a", 34), ("files/b", 11), ("new", 34)] {
        let name = named(name);
        assert_eq!(stale(admit(&place, &name, number).await).highest, token(35));
        stale(sql::begin(&place.pool, &name, token(number)).await);
        marks.raise(&name, token(number)).await.unwrap_err();
        let mut tx = place.pool.begin().await.unwrap();
        let refused = sql::admit_in_shadow(&mut tx, &name, Some(token(number))).await.unwrap();
        assert!(refused.unwrap().contains("is stale, high water 35"));
    }
    let error = place.client(&place::call("files/a", "34")).unwrap_err();
    assert!(error.contains("token 34 is stale, high water 35, resource files/a"), "{error}");
    let mut tx = place.pool.begin().await.unwrap();
    sql::present(&mut tx, token(20)).await.unwrap();
    let update = if place::STATES.is_empty() { ", fencing_token = 20" } else { "" };
    let update = sqlx::AssertSqlSafe(format!("UPDATE files SET late = 1{update}"));
    let error = sqlx::query(update).execute(&mut *tx).await.unwrap_err();
    assert_eq!(stale::<()>(Err(error.into())).highest, token(35));
    tx.rollback().await.unwrap();

    // Leases that last are as before, and new ones are not below the floor.
    for lease in [&held, &unwritten] {
        admit(&place, lease.resource(), 1).await.unwrap();
    }
    for name in ["files/a", "gone", "never"] {
        let lease = lock.try_acquire(&named(name)).await.unwrap();
        assert_eq!(lease.token(), token(35), "{name}");
        admit(&place, lease.resource(), 35).await.unwrap();
        stale(admit(&place, lease.resource(), 34).await);
    }
    // A second time, above the first floor.
    drop((held, unwritten));
    assert_eq!(prune_all(&place).await.from, token(35));
}

#[tokio::test]
async fn a_mark_above_the_floor_is_not_deleted_by_hand() {
    let place = ready().await;
    if place::GUARD {
        let guard = sqlx::AssertSqlSafe(crate::common::documented("## A mark that is too high"));
        sqlx::raw_sql(guard).execute(&place.pool).await.unwrap();
    }
    admit(&place, &resource(), 34).await.unwrap();
    admit(&place, &named("kept"), 40).await.unwrap();
    sqlx::query("UPDATE fencing_marks SET token = 34 WHERE resource = ''")
        .execute(&place.pool)
        .await
        .unwrap();
    for delete in ["DELETE FROM fencing_marks", "DELETE FROM fencing_marks WHERE resource = ''"] {
        let error = sqlx::query(delete).execute(&place.pool).await.unwrap_err().to_string();
        assert!(error.contains("a mark is never lowered"), "{error}");
    }
    let low = Prune::older_than(Duration::ZERO).below(token(35)).run(&place.pool).await.unwrap();
    assert_eq!((low.marks, low.floor), (1, token(35)));
    assert_eq!(highest(&place, &named("kept")).await, Some(40));
}

/// It has looked before the newer token came, and writes when the newer token's mark is gone.
#[tokio::test]
async fn who_saw_no_mark_before_is_refused_afterwards() {
    for &level in LEVELS {
        for before in [None, Some(32)] {
            let place = ready().await;
            if let Some(before) = before {
                admit(&place, &resource(), before).await.unwrap();
            }
            let mut old = place.pool.begin_with(level).await.unwrap();
            let look = "SELECT count(*) FROM fencing_marks WHERE resource = 'files/a'";
            // SERIALIZABLE locks what it looks at on MariaDB, and SQLite has one writer.
            let locks = level.contains("SERIALIZABLE") && place::GUARD
                || matches!(level, "BEGIN IMMEDIATE" | "BEGIN EXCLUSIVE");
            if locks {
                continue;
            }
            sqlx::query_scalar::<_, i64>(look).fetch_one(&mut *old).await.unwrap();
            admit(&place, &resource(), 34).await.unwrap();
            assert_eq!(prune_all(&place).await.marks, 1);
            match sql::admit(&mut old, &resource(), token(33)).await {
                Err(AdmitError::Stale(stale)) => assert_eq!(stale.highest, token(35)),
                Err(AdmitError::Retryable(_)) => {}
                other => panic!("{level}: {other:?}"),
            }
            old.rollback().await.unwrap();
            stale(admit(&place, &resource(), 33).await);
        }
    }
}

/// The floor does not rise past a transaction that is about to create a mark.
#[tokio::test]
async fn a_prune_waits_for_a_first_contact() {
    let place = ready().await;
    admit(&place, &named("old"), 50).await.unwrap();
    let mut tx = place.pool.begin().await.unwrap();
    sql::admit(&mut tx, &resource(), token(33)).await.unwrap();
    retryable(Prune::older_than(Duration::ZERO).run(&place.pool).await);
    write(&mut tx, token(33)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(prune_all(&place).await.marks, 2);
    stale(admit(&place, &resource(), 33).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_stale_is_written_while_marks_are_pruned() {
    const ROUNDS: u64 = 40;
    for &level in LEVELS {
        let place = Arc::new(ready().await);
        let (mut refused, mut pruned) = (0, 0);
        for round in 1..=ROUNDS {
            let writer = |number: u64| {
                let place = Arc::clone(&place);
                tokio::spawn(async move {
                    loop {
                        pause().await;
                        let attempt = async {
                            let mut tx = place.pool.begin_with(level).await?;
                            pause().await;
                            sql::admit(&mut tx, &resource(), token(number)).await?;
                            write(&mut tx, token(number)).await?;
                            Ok(tx.commit().await?)
                        };
                        match attempt.await {
                            Err(AdmitError::Retryable(_)) => {}
                            Err(AdmitError::Stale(_)) => return 1,
                            Ok(()) => return 0,
                            Err(error) => panic!("{level}: {error:?}"),
                        }
                    }
                })
            };
            let writers = [writer(10 * round + 2), writer(10 * round + 1), writer(10 * round + 1)];
            pause().await;
            pruned += prune_all(&place).await.marks;
            for writer in writers {
                refused += writer.await.unwrap();
            }
        }
        assert_eq!(file(&place).await.1, 0, "{level}: a stale write was accepted");
        assert!(refused > 0 && pruned > 0, "{level}: {refused} refused, {pruned} pruned");
    }
}
