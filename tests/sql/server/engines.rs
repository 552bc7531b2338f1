//! Tables whose rows a rollback or a crash would not keep right.

use fencing::sql::{self, MigrateError};

use super::setup::{by_path, faults, run, with};
use super::trigger_words::{ENGINES, KEEPS, PROTECT_REFUSES};

/// After it was protected, by ALTER TABLE.
#[tokio::test]
async fn a_table_that_has_lost_what_the_fence_rests_on_is_not_whole() {
    let place = with("CREATE TABLE files (path VARCHAR(50) PRIMARY KEY, body TEXT)").await;
    let protect = by_path("files");
    protect.apply(&place.pool).await.unwrap();
    for (table, change, expected) in ENGINES {
        run(&place.pool, &format!("ALTER TABLE {table} {change}")).await;
        let found = sql::protected(&place.pool, None).await.unwrap();
        for faults in [found[0].faults.join("; "), faults(&place).await] {
            assert!(faults.contains(expected), "{table}: {faults}");
        }
        match protect.apply(&place.pool).await {
            Err(error) => assert!(error.to_string().contains(expected), "{error}"),
            Ok(()) if PROTECT_REFUSES => panic!("{table} is protected"),
            Ok(()) => {}
        }
        match (*table, sql::migrate(&place.pool).await) {
            ("files", migrated) => migrated.unwrap(),
            (_, Err(MigrateError::Unguarded(what))) => assert!(what.contains(expected), "{what}"),
            (_, other) => panic!("{other:?}"),
        }
        run(&place.pool, &format!("ALTER TABLE {table} {KEEPS}")).await;
        sql::migrate(&place.pool).await.unwrap();
        assert_eq!(faults(&place).await, "");
    }
}
