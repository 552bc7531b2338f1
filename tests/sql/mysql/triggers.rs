//! Triggers of the application in the words of MySQL (`postgres/triggers.rs` says what each is), engines, foreign keys,
//! and names of tables.

use sqlx::MySqlPool;

use super::setup::*;

pub const PATH: &str = "path VARCHAR(50) COLLATE utf8mb4_bin PRIMARY KEY";

pub const LOWER: &str = "CREATE TRIGGER zz_insert BEFORE INSERT ON files FOR EACH ROW
    SET NEW.path = LOWER(NEW.path);
    CREATE TRIGGER zz_update BEFORE UPDATE ON files FOR EACH ROW SET NEW.path = LOWER(NEW.path)";

pub const OVER: &[&str] = &[
    "INSERT INTO files VALUES ('A', 'stale') ON DUPLICATE KEY UPDATE body = 'stale'",
    "REPLACE INTO files VALUES ('A', 'stale')",
];
pub const AGAIN: &[&str] = &[
    "INSERT IGNORE INTO files VALUES ('A', 'stale')",
    "REPLACE INTO files VALUES ('A', 'stale')",
    "UPDATE IGNORE files SET body = 'stale', path = 'A' WHERE path = 'b'",
];

pub const FILLED: &[(&str, &str, bool)] = &[
    ("path BIGINT PRIMARY KEY AUTO_INCREMENT, id BIGINT", "files/1", false),
    ("path BIGINT AS (7 - id) STORED, id BIGINT PRIMARY KEY", "files/6", true),
    ("path BIGINT AS (7 - id) VIRTUAL, id BIGINT PRIMARY KEY", "files/6", true),
];

pub const ANEW: &str = "CREATE TABLE anew LIKE files; RENAME TABLE files TO old, anew TO files";

/// Where nothing can be rolled back, a row that is refused would stay.
pub const ENGINES: &[(&str, &str, &str)] = &[
    ("files", "ENGINE = MyISAM", "its engine MyISAM has no transactions"),
    ("files", "ENGINE = Aria", "its engine Aria has no transactions"),
    ("fencing_marks", "ENGINE = MyISAM", "fencing_marks has the engine MyISAM"),
    ("fencing_leases", "ENGINE = MyISAM", "fencing_leases has the engine MyISAM"),
];
pub const NO_KEY: &str = "ALTER TABLE fencing_leases DROP PRIMARY KEY";
pub const KEEPS: &str = "ENGINE = InnoDB";

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
        is_found_and_mended(&protected("path VARCHAR(50) PRIMARY KEY").await, change, expected).await;
    }
}

#[tokio::test]
async fn a_table_that_was_renamed_gets_triggers_of_its_new_name_and_no_others() {
    let place = protected("path VARCHAR(50) PRIMARY KEY").await;
    run(&place.pool, ANEW).await;
    let old = found(&place.pool, "old").await.faults;
    assert!(old.join(";").contains("for a table of another name"), "{old:?}");
    for table in ["old", "files"] {
        by_path(table).apply(&place.pool).await.unwrap();
        assert!(found(&place.pool, table).await.is_whole());
    }
}

#[tokio::test]
async fn foreign_keys_that_get_past_are_named() {
    let tables = "CREATE TABLE folders (name VARCHAR(50) PRIMARY KEY);
        CREATE TABLE files (path VARCHAR(50) PRIMARY KEY, folder VARCHAR(50), other VARCHAR(50),
            CONSTRAINT in_folder FOREIGN KEY (folder) REFERENCES folders (name) ON DELETE CASCADE,
            CONSTRAINT harmless FOREIGN KEY (other) REFERENCES folders (name))";
    let place = with(tables).await;
    Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    let found = found(&place.pool, "files").await;
    let unseen = found.unseen.join("; ");
    assert!(found.is_whole(), "{found:?}");
    assert!(unseen.contains("TRUNCATE") && unseen.contains("in_folder"), "{unseen}");
    assert!(!unseen.contains("harmless"), "{unseen}");
}

/// As on other systems than Linux.
#[tokio::test]
async fn where_names_of_tables_ignore_case_a_table_does_not_get_other_names() {
    let server = super::Server::with(&["lower-case-table-names=1"]);
    let pool = MySqlPool::connect_with(server.database().await).await.unwrap();
    sql::migrate(&pool).await.unwrap();
    run(&pool, "CREATE TABLE Files (path VARCHAR(9), id VARCHAR(9))").await;
    for name in ["FILES", "files", "Test_0.Files"] {
        by_path(name).apply(&pool).await.unwrap();
        let refused = Protect::rows(name, "id").unwrap().apply(&pool).await;
        assert!(matches!(refused, Err(sql::ProtectError::Unguardable { .. })), "{name}: {refused:?}");
        let found = sql::protected(&pool, Some(name)).await.unwrap();
        assert!(found.len() == 1 && found[0].is_whole() && found[0].table == "files", "{name}: {found:?}");
    }
}
