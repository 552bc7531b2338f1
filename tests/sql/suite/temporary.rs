//! What a session brings along: a temporary table comes before the real one, where no schema is named.

use super::writers::{WAYS, Way, Writer};
use super::*;

/// Refused or an error: no way in accepts 33 where the mark is 34.
#[tokio::test]
async fn a_temporary_table_does_not_stand_for_the_marks() {
    for way in WAYS {
        let place = ready_for(way).await;
        raise(&place.pool, &resource(), 34).await;
        let pool = single(&place.pool);
        for statement in [
            "CREATE TEMPORARY TABLE fencing_marks (
                resource VARCHAR(255) PRIMARY KEY, token BIGINT)",
            "INSERT INTO fencing_marks VALUES ('files/a', 33)",
            place::TEMPORARY,
        ] {
            run(&pool, statement).await;
        }
        Writer::new(way).write(&pool, 33).await.expect_err(&format!("{way:?}"));
        SqlMarks::new(pool.clone()).raise(&resource(), token(33)).await.unwrap_err();
        if way != Way::Guarded {
            continue;
        }
        // A client that is not stale is not kept out.
        Writer::new(way).write(&pool, 35).await.unwrap();
        assert_eq!(file(&place).await, (35, 0));
        assert_eq!(highest(&place, &resource()).await, Some(35));
        // A lease has a token above the mark, and an operator sees the mark.
        let lock = SqlLock::new(pool.clone());
        assert_eq!(lock.acquire(&resource()).await.unwrap().token(), token(36));
        assert!(lock.health().await.has_quorum());
        let listed = sql::marks(&pool, &[], 10).await.unwrap();
        assert_eq!(listed[0].number, Some(35), "{listed:?}");
    }
}
