//! Shadow mode: nothing is refused, and everything that would be is told.

use std::sync::Arc;
use std::time::Duration;

use fencing::Sequencer;
use fencing::sql::{Protect, Refused};

use super::*;

fn protect() -> Protect {
    by_path("documents")
}

/// A table of a service that knows nothing of fencing, with rows for some writers, in shadow mode.
async fn shadowed() -> Place {
    let place = ready().await;
    run(&place.pool, "CREATE TABLE documents (path VARCHAR(255) PRIMARY KEY, body VARCHAR(255))")
        .await;
    for path in ["hot", "w0", "w1", "w2", "w3"] {
        run(&place.pool, &format!("INSERT INTO documents (path, body) VALUES ('{path}', '')"))
            .await;
    }
    protect().shadow().apply(&place.pool).await.unwrap();
    place
}

/// Writes the row in this transaction, and presents this, if anything.
async fn update(
    tx: &mut Transaction<'_, Db>,
    path: &str,
    presented: Option<(&str, u64)>,
) -> Result<(), AdmitError> {
    let own = presented.map(|(name, number)| {
        Sequencer::new(Resource::new(format!("files/{name}")).unwrap(), token(number))
    });
    let mut presents = String::new();
    if let Some(own) = &own {
        sql::present(tx, own).await?;
        presents = place::presents(own);
    }
    let update = format!("UPDATE documents SET body = 'x'{presents} WHERE path = '{path}'");
    sqlx::query(sqlx::AssertSqlSafe(update)).execute(&mut **tx).await?;
    Ok(())
}

/// The same in a transaction of its own. A busy SQLite is asked again, as it would be without a fence.
async fn written(
    place: &Place,
    path: &str,
    presented: Option<(&str, u64)>,
) -> Result<(), AdmitError> {
    loop {
        let mut tx = place.pool.begin().await?;
        let done = match update(&mut tx, path, presented).await {
            Ok(()) => tx.commit().await.map_err(AdmitError::from),
            Err(error) => Err(error),
        };
        match done {
            Err(AdmitError::Retryable(_)) if place::STATES.is_empty() => pause().await,
            done => return done,
        }
    }
}

fn kept(refusals: &[Refused], resource: &str, cause: &str) -> usize {
    refusals.iter().filter(|own| own.resource == resource && own.cause == cause).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unguarded_service_is_looked_at_under_load_and_then_guarded() {
    const ROUNDS: u64 = 20;
    let place = Arc::new(shadowed().await);
    let writer = |number: u64| {
        let place = Arc::clone(&place);
        tokio::spawn(async move {
            let path = format!("w{number}");
            for round in 0..ROUNDS {
                let new = 10 + round;
                written(&place, &path, Some((&path, new))).await.unwrap();
                written(&place, &path, Some((&path, new))).await.unwrap();
                written(&place, &path, Some((&path, new - 1))).await.unwrap();
                written(&place, &path, Some(("other", new))).await.unwrap();
                written(&place, &path, None).await.unwrap();
                written(&place, "hot", None).await.unwrap();
                // Neighbouring tokens, in any order.
                written(&place, "hot", Some(("hot", 4 * round + number + 1))).await.unwrap();
            }
        })
    };
    let writers: Vec<_> = (0..4).map(writer).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let refusals = sql::refusals(&place.pool).await.unwrap();
    for number in 0..4 {
        let name = format!("files/w{number}");
        assert_eq!(kept(&refusals, &name, "stale"), 1, "{refusals:?}");
        assert_eq!(kept(&refusals, &name, "unpresented"), 1, "{refusals:?}");
        let own = Resource::new(name).unwrap();
        assert_eq!(highest(&place, &own).await, Some(9 + ROUNDS));
    }
    assert_eq!(kept(&refusals, "files/hot", "unpresented"), 1, "{refusals:?}");
    let known = |own: &&Refused| matches!(own.cause.as_str(), "stale" | "unpresented" | "waits");
    assert_eq!(refusals.iter().filter(known).count(), refusals.len(), "{refusals:?}");
    let first = refusals.iter().find(|own| own.resource == "files/w0" && own.cause == "stale");
    let words = "token 9 is stale, high water 10, resource files/w0";
    assert!(first.unwrap().message.contains(words), "{refusals:?}");

    let tables = sql::protected(&place.pool, None).await.unwrap();
    assert!(tables[0].shadow && !tables[0].is_whole(), "{tables:?}");
    assert!(tables[0].faults.is_empty() && tables[0].is_protected(), "{tables:?}");
    protect().apply(&place.pool).await.unwrap();
    let tables = sql::protected(&place.pool, None).await.unwrap();
    assert!(!tables[0].shadow && tables[0].is_whole(), "{tables:?}");
    assert_eq!(stale(written(&place, "w0", Some(("w0", 28))).await).highest, token(29));
    unpresented(written(&place, "w0", None).await);
    written(&place, "w0", Some(("w0", 29))).await.unwrap();
    assert_eq!(sql::refusals(&place.pool).await.unwrap(), refusals);
    // And back.
    protect().shadow().apply(&place.pool).await.unwrap();
    written(&place, "w0", None).await.unwrap();
}

#[tokio::test]
async fn what_is_rolled_back_has_not_been_written_and_is_not_kept() {
    let place = shadowed().await;
    let mut tx = place.pool.begin().await.unwrap();
    update(&mut tx, "w0", None).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = place.pool.begin().await.unwrap();
    update(&mut tx, "w1", Some(("w1", 7))).await.unwrap();
    run(&mut *tx, "SAVEPOINT here").await;
    update(&mut tx, "w1", None).await.unwrap();
    update(&mut tx, "w2", Some(("w2", 7))).await.unwrap();
    run(&mut *tx, "ROLLBACK TO SAVEPOINT here").await;
    update(&mut tx, "w1", Some(("w1", 6))).await.unwrap();
    tx.commit().await.unwrap();
    let refusals = sql::refusals(&place.pool).await.unwrap();
    assert_eq!((refusals.len(), kept(&refusals, "files/w1", "stale")), (1, 1), "{refusals:?}");
    assert_eq!(highest(&place, &Resource::new("files/w2").unwrap()).await, None);
}

/// Two transactions are open side by side, and each meets what the other has touched.
#[tokio::test]
async fn nobody_waits_in_shadow_mode() {
    if place::STATES.is_empty() {
        return; // SQLite has one writer at a time.
    }
    for &level in LEVELS {
        // There MySQL locks what it reads, and PostgreSQL finds conflicts between reads.
        if level.contains("SERIALIZABLE") {
            continue;
        }
        let place = shadowed().await;
        written(&place, "hot", Some(("hot", 5))).await.unwrap();
        // Rows that were there.
        let mut tx = place.pool.begin().await.unwrap();
        for name in ["x", "y"] {
            let name = Resource::new(name).unwrap();
            sql::admit_in_shadow(&mut tx, &name, None).await.unwrap();
        }
        tx.commit().await.unwrap();
        let both = async {
            let mut one = place.pool.begin_with(level).await.unwrap();
            let mut two = place.pool.begin_with(level).await.unwrap();
            for (tx, number, own, first, second) in
                [(&mut one, 1, "w0", "x", "y"), (&mut two, 2, "w1", "y", "x")]
            {
                update(tx, own, None).await.unwrap();
                for name in [first, second] {
                    let name = Resource::new(name).unwrap();
                    sql::admit_in_shadow(tx, &name, None).await.unwrap();
                    sql::admit_in_shadow(tx, &name, Some(token(number))).await.unwrap();
                }
            }
            // A mark that was there.
            let hot = Resource::new("files/hot").unwrap();
            for (tx, number) in [(&mut one, 6), (&mut two, 7)] {
                sql::admit_in_shadow(tx, &hot, Some(token(number))).await.unwrap();
            }
            one.commit().await.unwrap();
            two.commit().await.unwrap();
        };
        tokio::time::timeout(Duration::from_secs(10), both).await.expect("somebody waits");
        let refusals = sql::refusals(&place.pool).await.unwrap();
        assert!(kept(&refusals, "x", "waits") + kept(&refusals, "y", "waits") > 0, "{refusals:?}");
        for name in ["x", "y"] {
            assert_eq!(kept(&refusals, name, "unpresented"), 1, "{level}: {refusals:?}");
        }
        let hot = Resource::new("files/hot").unwrap();
        assert!(highest(&place, &hot).await >= Some(6), "{level}");
    }
}

#[tokio::test]
async fn the_table_does_not_grow_without_end() {
    let place = shadowed().await;
    let mut tx = place.pool.begin().await.unwrap();
    for number in 0..1100 {
        run(&mut *tx, &format!("INSERT INTO documents (path, body) VALUES ('n{number}', '')"))
            .await;
    }
    tx.commit().await.unwrap();
    let refusals = sql::refusals(&place.pool).await.unwrap();
    assert_eq!((refusals.len(), kept(&refusals, "", "unpresented")), (1001, 1));
    written(&place, "w0", None).await.unwrap();
    written(&place, "n7", None).await.unwrap();
    assert_eq!(sql::refusals(&place.pool).await.unwrap(), refusals);
    written(&place, "w0", Some(("w0", 7))).await.unwrap();
    written(&place, "w0", Some(("w0", 6))).await.unwrap();
    let refusals = sql::refusals(&place.pool).await.unwrap();
    assert_eq!((refusals.len(), kept(&refusals, "", "stale")), (1002, 1));
}

#[tokio::test]
async fn a_transaction_is_told_what_the_fence_would_say() {
    let place = ready().await;
    let mut tx = place.pool.begin().await.unwrap();
    let stale = "fencing: token 33 is stale, high water 34, resource files/a";
    let none = "fencing: no token presented, high water 34, resource files/a";
    for (number, said) in [(Some(34), None), (Some(33), Some(stale)), (None, Some(none))] {
        let refused = sql::admit_in_shadow(&mut tx, &resource(), number.map(token)).await;
        assert_eq!(refused.unwrap().as_deref(), said);
    }
    tx.commit().await.unwrap();
    let refusals = sql::refusals(&place.pool).await.unwrap();
    let told: Vec<_> = refusals.iter().map(|own| (&*own.place, &*own.message)).collect();
    assert_eq!(told, [("admit", stale), ("admit", none)]);
    assert_eq!(highest(&place, &resource()).await, Some(34));
}
