//! Tables whose rows a rollback or a crash would not keep right.

use fencing::sql::{self, MigrateError};

use super::setup::{by_path, faults, protected, run};
use super::trigger_words::{ENGINES, KEEPS};

/// After it was protected, by ALTER TABLE.
#[tokio::test]
async fn a_table_that_has_lost_what_the_fence_rests_on_is_not_whole() {
    let place = protected("path VARCHAR(50) PRIMARY KEY").await;
    for (table, change, expected) in ENGINES {
        run(&place.pool, &format!("ALTER TABLE {table} {change}")).await;
        let found = sql::protected(&place.pool, None).await.unwrap();
        for faults in [found[0].faults.join("; "), faults(&place).await] {
            assert!(faults.contains(expected), "{table}: {faults}");
        }
        let error = by_path("files").apply(&place.pool).await.expect_err(table);
        assert!(error.to_string().contains(expected), "{error}");
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
