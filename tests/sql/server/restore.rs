//! Marks that a dump brings back.

use super::setup::*;

/// The target has its fence already, and a floor of 0. The row is in the way of the one that is restored.
#[tokio::test]
async fn marks_that_are_restored_alone_bring_their_floor_or_nothing() {
    let source = migrated().await;
    for (name, number) in [("r", 10), ("s", 500)] {
        raise(&source.pool, &named(name), number).await;
    }
    run(&source.pool, place::OLDER).await;
    raise(&source.pool, &named("low"), 5).await;
    let prune = Prune::older_than(Duration::from_secs(3600)).up_to(token(10));
    let pruned = prune.run(&source.pool).await.unwrap();
    assert_eq!((pruned.marks, pruned.floor), (1, Some(token(10))));
    let dump = source.dump(place::DUMP, &["fencing_floor", "fencing_marks"]);
    let place = migrated().await;
    if place::GUARD {
        run(&place.pool, &documented("## A mark that is too high")).await;
    }
    let error = place.client(&dump).unwrap_err();
    assert!(error.to_lowercase().contains("duplicate"), "{error}");
    assert_eq!(sql::marks(&place.pool, &[], 1).await.unwrap(), []);

    // What has no floor yet admits nobody.
    run(&place.pool, "DELETE FROM fencing_floor").await;
    let error = begin(&place.pool, 34).await.unwrap_err();
    assert!(matches!(error, AdmitError::NotMigrated(_)), "{error:?}");
    place.client(&dump).unwrap();
    for (name, number) in [("r", 10), ("low", 4), ("s", 499)] {
        stale(sql::begin(&place.pool, &named(name), token(number)).await);
        raise(&place.pool, &named(name), number + 1).await;
    }
    let error = attempt(&place.pool, "DELETE FROM fencing_floor").await.unwrap_err();
    assert!(error.to_string().contains("a mark is never lowered"), "{error}");
}
