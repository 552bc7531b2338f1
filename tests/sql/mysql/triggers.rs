//! Triggers of the application beside those of a protected table, and columns that the database
//! fills in.

use fencing::sql::{self, MigrateError, Protect};

use super::place::Place;
use super::setup::{by_path, migrated, run, with};

/// A protected table with these first columns, before the triggers of the application are there.
async fn protected(columns: &str) -> Place {
    let place = with(&format!("CREATE TABLE files ({columns}, body TEXT)")).await;
    by_path("files").apply(&place.pool).await.unwrap();
    place
}

fn presenting(token: u64, write: &str) -> String {
    format!("SET @fencing_token = {token}; {write}")
}

async fn bodies(place: &Place) -> Vec<String> {
    let bodies = sqlx::query_scalar("SELECT body FROM files ORDER BY body");
    bodies.fetch_all(&place.pool).await.unwrap()
}

fn is_stale(place: &Place, resource: &str, write: &str) {
    let error = place.client(&presenting(1, write)).expect_err(write);
    let words = format!("fencing: token 1 is stale, high water 34, resource {resource}");
    assert!(error.contains(&words), "{write}: {error}");
}

#[tokio::test]
async fn a_trigger_that_renames_later_is_seen() {
    let place = protected("path VARCHAR(50) COLLATE utf8mb4_bin PRIMARY KEY").await;
    for (name, event) in [("zz_insert", "INSERT"), ("zz_update", "UPDATE")] {
        run(
            &place.pool,
            &format!(
                "CREATE TRIGGER {name} BEFORE {event} ON files FOR EACH ROW
            SET NEW.path = LOWER(NEW.path)"
            ),
        )
        .await;
    }
    place.client(&presenting(34, "INSERT INTO files VALUES ('A', 'new')")).unwrap();
    place.client(&presenting(1, "INSERT INTO files VALUES ('B', 'b')")).unwrap();
    for write in [
        "INSERT INTO files VALUES ('A', 'stale') ON DUPLICATE KEY UPDATE body = 'stale'",
        "REPLACE INTO files VALUES ('A', 'stale')",
        "UPDATE files SET body = 'stale', path = 'A' WHERE path = 'a'",
    ] {
        is_stale(&place, "files/a", write);
    }
    // The row is gone, and its mark is not.
    place.client(&presenting(34, "DELETE FROM files WHERE path = 'a'")).unwrap();
    for write in [
        "INSERT INTO files VALUES ('A', 'stale')",
        "INSERT IGNORE INTO files VALUES ('A', 'stale')",
        "REPLACE INTO files VALUES ('A', 'stale')",
        "UPDATE files SET body = 'stale', path = 'A' WHERE path = 'b'",
        "UPDATE IGNORE files SET body = 'stale', path = 'A' WHERE path = 'b'",
    ] {
        is_stale(&place, "files/a", write);
    }
    assert_eq!(bodies(&place).await, ["b"]);
    place.client(&presenting(35, "UPDATE files SET body = 'newer', path = 'A'")).unwrap();
    assert_eq!(bodies(&place).await, ["newer"]);
}

#[tokio::test]
async fn a_column_that_the_database_fills_in_names_the_resource() {
    for (columns, resource) in [
        ("path BIGINT PRIMARY KEY AUTO_INCREMENT, id BIGINT", "files/1"),
        ("path BIGINT AS (7 - id) STORED, id BIGINT PRIMARY KEY", "files/6"),
        ("path BIGINT AS (7 - id) VIRTUAL, id BIGINT PRIMARY KEY", "files/6"),
    ] {
        let place = protected(columns).await;
        place.client(&presenting(34, "INSERT INTO files (id, body) VALUES (1, 'new')")).unwrap();
        place.client(&presenting(1, "INSERT INTO files (id, body) VALUES (2, 'b')")).unwrap();
        is_stale(&place, resource, "UPDATE files SET body = 'stale' WHERE body = 'new'");
        is_stale(&place, resource, "DELETE FROM files WHERE body = 'new'");
        assert_eq!(bodies(&place).await, ["b", "new"]);
    }
}

/// Where nothing can be rolled back, a row that is refused would stay.
#[tokio::test]
async fn a_table_without_transactions_is_not_protected() {
    let place = migrated().await;
    for engine in ["MyISAM", "Aria", "MEMORY"] {
        run(&place.pool, &format!("CREATE TABLE {engine} (path VARCHAR(50)) ENGINE = {engine}"))
            .await;
        let protect = Protect::rows(engine, "path").unwrap();
        let error = protect.apply(&place.pool).await.expect_err(engine);
        let words = format!("the table {engine} can't be protected: its engine {engine} has no");
        assert!(error.to_string().contains(&words), "{error}");
    }
}

/// After it was protected, by ALTER TABLE.
#[tokio::test]
async fn a_table_that_has_lost_its_transactions_is_not_whole() {
    let place = protected("path VARCHAR(50) PRIMARY KEY").await;
    let protect = by_path("files");
    for (table, expected) in [
        ("files", "its engine MyISAM has no transactions"),
        ("fencing_marks", "fencing_marks has the engine MyISAM"),
        ("fencing_leases", "fencing_leases has the engine MyISAM"),
    ] {
        let alter = async |engine| {
            let alter = format!("ALTER TABLE {table} ENGINE = {engine}");
            run(&place.pool, &alter).await;
        };
        alter("MyISAM").await;
        for name in [None, Some("files")] {
            let found = sql::protected(&place.pool, name).await.unwrap();
            let faults = found[0].faults.join("; ");
            assert!(faults.contains(expected), "{table}: {faults}");
        }
        let error = protect.apply(&place.pool).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        match (table, sql::migrate(&place.pool).await) {
            ("files", migrated) => migrated.unwrap(),
            (_, Err(MigrateError::Unguarded(what))) => assert!(what.contains(expected), "{what}"),
            (_, other) => panic!("{other:?}"),
        }
        alter("InnoDB").await;
        sql::migrate(&place.pool).await.unwrap();
        assert!(sql::protected(&place.pool, None).await.unwrap()[0].is_whole());
    }
}

#[tokio::test]
async fn the_catalogue_says_what_is_missing_and_what_gets_past() {
    for (change, expected) in [
        ("DROP TRIGGER fencing_move_files", "fencing_move_files is missing"),
        (
            "CREATE OR REPLACE TRIGGER fencing_delete_files AFTER DELETE ON files FOR EACH ROW
            CALL fencing_check('', '1')",
            "fencing_delete_files is not the one",
        ),
        (
            "CREATE OR REPLACE TRIGGER fencing_insert_files BEFORE INSERT ON files FOR EACH ROW
            CALL fencing_check(CONCAT(x'66696c65732f', CONVERT(NEW.`path` USING utf8mb4)),
            @fencing_token)",
            "fencing_insert_files is not the one",
        ),
    ] {
        let place = protected("path VARCHAR(50) PRIMARY KEY").await;
        run(&place.pool, change).await;
        let found = sql::protected(&place.pool, None).await.unwrap();
        let faults = found[0].faults.join("; ");
        assert!(faults.contains(expected), "{change}: {faults}");
        by_path("files").apply(&place.pool).await.unwrap();
        assert!(sql::protected(&place.pool, None).await.unwrap()[0].is_whole());
    }
}

/// As tools for online schema changes do it: the triggers stay with the table that is gone.
#[tokio::test]
async fn a_table_that_was_made_anew_is_said_not_to_be_protected() {
    let place = protected("path VARCHAR(50) PRIMARY KEY").await;
    for change in ["CREATE TABLE anew LIKE files", "RENAME TABLE files TO old, anew TO files"] {
        run(&place.pool, change).await;
    }
    let found = sql::protected(&place.pool, Some("files")).await.unwrap();
    assert!(found[0].faults[0].starts_with("it is not protected"), "{found:?}");
    let old = sql::protected(&place.pool, Some("old")).await.unwrap();
    assert!(old[0].faults.join(";").contains("for a table of another name"), "{old:?}");
    // Under its new name it gets triggers of that name, and no others.
    by_path("old").apply(&place.pool).await.unwrap();
    assert!(sql::protected(&place.pool, Some("old")).await.unwrap()[0].is_whole());
    Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    assert!(sql::protected(&place.pool, Some("files")).await.unwrap()[0].is_whole());
}

#[tokio::test]
async fn foreign_keys_that_get_past_are_named() {
    let place = migrated().await;
    for create in [
        "CREATE TABLE folders (name VARCHAR(50) PRIMARY KEY)",
        "CREATE TABLE files (path VARCHAR(50) PRIMARY KEY, folder VARCHAR(50), other VARCHAR(50),
            CONSTRAINT in_folder FOREIGN KEY (folder) REFERENCES folders (name) ON DELETE CASCADE,
            CONSTRAINT harmless FOREIGN KEY (other) REFERENCES folders (name))",
    ] {
        run(&place.pool, create).await;
    }
    Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    let found = sql::protected(&place.pool, None).await.unwrap();
    let unseen = found[0].unseen.join("; ");
    assert!(found[0].is_whole(), "{found:?}");
    assert!(unseen.contains("TRUNCATE") && unseen.contains("in_folder"), "{unseen}");
    assert!(!unseen.contains("harmless"), "{unseen}");
}
