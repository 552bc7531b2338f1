//! What a dump may lose, or a hand.

use super::*;

#[tokio::test]
async fn what_is_lost_is_named_and_comes_back_and_no_mark_is_changed() {
    let place = migrated().await;
    admit(&place, &resource(), 34).await.unwrap();
    run(&place.pool, place::LOSE).await;
    for _ in 0..2 {
        let error = sql::migrate(&place.pool).await.unwrap_err();
        assert!(matches!(error, MigrateError::Lost { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(place::LOST) && text.contains("_fencing_migrations"), "{text}");
        assert!(text.matches("fencing_").count() == 2, "names what is there: {text}");
    }
    migrate_again(&place).await;
    stale(admit(&place, &resource(), 33).await);
    // So it is with a table.
    run(&place.pool, "DROP TABLE fencing_leases").await;
    is_lost(&place.pool, "the table fencing_leases").await;
    migrate_again(&place).await;
}

#[tokio::test]
async fn a_protected_table_is_not_whole_without_its_routines_or_with_others() {
    let place = ready().await;
    Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    assert_eq!(faults(&place).await, "");
    for change in [place::LOSE, place::CHANGE] {
        run(&place.pool, change).await;
        let found = faults(&place).await;
        assert!(found.contains(place::LOST), "{found}");
        assert_eq!(found.contains("text differs from this version"), change == place::CHANGE, "{found}");
        assert!(!found.contains("fencing_hold"), "{found}");
    }
    migrate_again(&place).await;
    assert_eq!(faults(&place).await, "");
}

#[tokio::test]
async fn lost_marks_are_named_and_nothing_is_created_in_their_place() {
    for (table, loses) in [
        ("fencing_marks", "DROP TABLE fencing_marks"),
        ("fencing_floor", "DROP TABLE fencing_floor"),
        ("fencing_floor", "DELETE FROM fencing_floor"),
    ] {
        let place = ready().await;
        Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
        admit(&place, &resource(), 50).await.unwrap();
        run(&place.pool, loses).await;
        if table == "fencing_marks" {
            let error = admit(&place, &resource(), 51).await.unwrap_err();
            assert!(matches!(error, AdmitError::NotMigrated(_)), "{error:?}");
            assert!(error.to_string().contains("says what to do if it was lost"), "{error}");
        }
        // The advice for what else may be lost, and another one that an operator might follow.
        for more in ["SELECT 1", "DELETE FROM _fencing_migrations", "DROP TABLE _fencing_migrations"] {
            run(&place.pool, more).await;
            let error = sql::migrate(&place.pool).await.unwrap_err();
            assert!(matches!(error, MigrateError::MarksLost { .. }), "{more}: {error:?}");
            let said = error.to_string();
            assert!(said.contains(table) && said.contains("Stop all writers"), "{said}");
            assert!(faults(&place).await.contains(&said), "{}", faults(&place).await);
        }
        // As the message says.
        for (_, _, sql) in sql::migrations::<Db>() {
            run(&place.pool, sql).await;
        }
        admit(&place, &resource(), 50).await.unwrap();
        sql::migrate(&place.pool).await.unwrap();
        assert_eq!(faults(&place).await, "");
        stale(admit(&place, &resource(), 30).await);
    }
}

/// As where only the definitions of the tables were restored.
#[tokio::test]
async fn a_floor_without_a_row_is_named_and_admits_nobody_to_a_new_resource() {
    let place = ready().await;
    let lock = SqlLock::builder(place.pool.clone()).build().unwrap();
    lock.try_acquire(&resource()).await.unwrap().release().await.unwrap();
    let (known, other) = (named("known"), named("other"));
    admit(&place, &known, 34).await.unwrap();
    run(&place.pool, "DELETE FROM fencing_floor").await;
    admit(&place, &known, 35).await.unwrap();
    let error = admit(&place, &other, 34).await.unwrap_err();
    assert!(!matches!(error, AdmitError::Stale(_) | AdmitError::Retryable(_)), "{error:?}");
    // A lease would start at 1.
    lock.try_acquire(&other).await.unwrap_err();
    lock.try_acquire_shared(&other).await.unwrap_err();
    Prune::older_than(Duration::ZERO).look(&place.pool).await.unwrap_err();
    let refused = lock.try_acquire(&resource()).await.unwrap_err().to_string();
    let raised = sql::raise_floor(&place.pool, token(7)).await.unwrap_err().to_string();
    for said in [refused, raised] {
        assert!(said.contains("fencing_floor has no row"), "{said}");
    }
    // In PostgreSQL a user of leases cannot read the floor.
    let health = lock.health().await;
    assert_eq!(health.has_quorum(), Db::NAME == "PostgreSQL", "{health:?}");
    // As the message of `migrate` says. SQLite cannot know.
    for (_, _, sql) in sql::migrations::<Db>() {
        run(&place.pool, sql).await;
    }
    let lease = lock.try_acquire(&Resource::new("new").unwrap()).await.unwrap();
    assert!(lease.token() > token(1_000_000) || Db::NAME == "SQLite", "{}", lease.token());
    // A name is no fault.
    let floor = Resource::new("fencing_floor has no row").unwrap();
    raise(&place.pool, &floor, Token::MAX.get() - 5).await;
    stale(attempt(&place.pool, &place::call(floor.as_str(), "34")).await);
}
