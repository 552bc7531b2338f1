//! Triggers of the application beside those of a protected table, columns that the database fills in, and tables whose
//! rows a rollback or a crash would not keep right.

use super::setup::*;
use super::trigger_words as words;

/// Writes by a client in another language that presents this token.
pub fn write(place: &Place, token: u64, write: &str) -> Result<String, String> {
    place.client(&place::presented(Some(&token.to_string()), write))
}

pub fn is_stale(place: &Place, resource: &str, stale: &str) {
    let error = write(place, 1, stale).expect_err(stale);
    let words = format!("fencing: token 1 is stale, high water 34, resource {resource}");
    assert!(error.contains(&words), "{stale}: {error}");
}

pub async fn bodies(place: &Place) -> Vec<String> {
    sqlx::query_scalar("SELECT body FROM files ORDER BY body").fetch_all(&place.pool).await.unwrap()
}

#[tokio::test]
async fn a_trigger_that_renames_later_is_seen() {
    let place = protected(words::PATH).await;
    run(&place.pool, words::LOWER).await;
    let rename = |from| format!("UPDATE files SET body = 'stale', path = 'A' WHERE path = '{from}'");
    write(&place, 34, "INSERT INTO files VALUES ('A', 'new')").unwrap();
    write(&place, 1, "INSERT INTO files VALUES ('B', 'b')").unwrap();
    for write in words::OVER.iter().copied().chain([&*rename("a")]) {
        is_stale(&place, "files/a", write);
    }
    // The row is gone, and its mark is not.
    write(&place, 34, "DELETE FROM files WHERE path = 'a'").unwrap();
    let again = ["INSERT INTO files VALUES ('A', 'stale')", &*rename("b")];
    for write in words::AGAIN.iter().copied().chain(again) {
        is_stale(&place, "files/a", write);
    }
    assert_eq!(bodies(&place).await, ["b"]);
    write(&place, 35, "UPDATE files SET body = 'newer', path = 'A'").unwrap();
    assert_eq!(bodies(&place).await, ["newer"]);
}

#[tokio::test]
async fn a_column_that_the_database_fills_in_names_the_resource() {
    for (columns, resource, again) in words::FILLED {
        let place = protected(columns).await;
        write(&place, 34, "INSERT INTO files (id, body) VALUES (1, 'new')").unwrap();
        write(&place, 1, "INSERT INTO files (id, body) VALUES (2, 'b')").unwrap();
        is_stale(&place, resource, "UPDATE files SET body = 'stale' WHERE body = 'new'");
        is_stale(&place, resource, "DELETE FROM files WHERE body = 'new'");
        assert_eq!(bodies(&place).await, ["b", "new"]);
        if *again {
            // The row is gone, and its mark is not.
            write(&place, 34, "DELETE FROM files WHERE id = 1").unwrap();
            is_stale(&place, resource, "INSERT INTO files (id, body) VALUES (1, 'stale')");
            is_stale(&place, resource, "UPDATE files SET id = 1, body = 'stale' WHERE id = 2");
        }
    }
}

/// As tools for online schema changes do it: the triggers stay with the table that is gone.
#[tokio::test]
async fn a_table_that_was_made_anew_is_said_not_to_be_protected() {
    let place = protected(words::PATH).await;
    run(&place.pool, words::ANEW).await;
    let anew = found(&place.pool, "files").await;
    assert!(anew.faults[0].starts_with("it is not protected"), "{anew:?}");
    assert!(found(&place.pool, "old").await.is_protected());
}

/// After it was protected, by ALTER TABLE.
#[tokio::test]
async fn a_table_that_has_lost_what_the_fence_rests_on_is_not_whole() {
    let place = protected("path VARCHAR(50) PRIMARY KEY").await;
    for (table, change, expected) in words::ENGINES {
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
        run(&place.pool, &format!("ALTER TABLE {table} {}", words::KEEPS)).await;
        sql::migrate(&place.pool).await.unwrap();
        assert_eq!(faults(&place).await, "");
    }
    // As a dump without its last section restores it: two rows of one resource would be two leases.
    run(&place.pool, words::NO_KEY).await;
    let error = sql::check(&place.pool).await.unwrap_err().to_string();
    assert!(error.contains("fencing_leases has no primary key"), "{error}");
}
