//! Protected tables that SQLite has and others do not, and its table of the floor.

use fencing::sql::ProtectError;

use super::setup::*;

const TRIGGERS: &str = "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'files'";

async fn protect(place: &Place) -> Result<(), ProtectError> {
    by_path("files").apply(&place.pool).await
}

/// Many rows may have one value in a column that is named like the number of a row.
#[tokio::test]
async fn a_column_may_be_named_rowid() {
    for columns in ["rowid TEXT", "ROWID TEXT, _rowid_ TEXT", "oid TEXT, rowid TEXT"] {
        let place = with(&format!("CREATE TABLE files (path TEXT PRIMARY KEY, {columns})")).await;
        protect(&place).await.unwrap();
        let writes = "INSERT INTO files (path, rowid, fencing_token) VALUES ('a', NULL, 34);
            INSERT INTO files (path, rowid, fencing_token) VALUES ('b', 'same', 35);
            UPDATE files SET fencing_token = -34 WHERE path = 'a'";
        run(&place.pool, writes).await;
        let paths = "SELECT CASE group_concat(path) WHEN 'b' THEN 1 ELSE 0 END FROM files";
        assert_eq!(number(&place.pool, paths).await, 1, "{columns}");
        let insert = "INSERT INTO files (path, rowid, fencing_token) VALUES (NULL, 'same', 34)";
        attempt(&place.pool, insert).await.unwrap_err();
        let left = "SELECT count(*) FROM files WHERE fencing_token IS NOT NULL";
        assert_eq!(number(&place.pool, left).await, 0);
        stale(attempt(&place.pool, "UPDATE files SET fencing_token = 34 WHERE path = 'b'").await);
    }
}

#[tokio::test]
async fn a_table_that_the_triggers_could_not_guard_is_refused() {
    for (create, why) in [
        ("CREATE TABLE files (path TEXT PRIMARY KEY) WITHOUT ROWID", "WITHOUT ROWID"),
        ("CREATE TABLE files (path TEXT PRIMARY KEY, rowid, oid, _rowid_)", "rowid, _rowid_ and oid"),
        (
            "CREATE TABLE files (path TEXT, fencing_token INTEGER);
            INSERT INTO files VALUES ('a', 5)",
            "rows with a value in fencing_token",
        ),
        ("CREATE TABLE files (path TEXT, fencing_token INTEGER NOT NULL DEFAULT 5)", "its column fencing_token"),
        ("CREATE TABLE files (path TEXT, fencing_token INTEGER DEFAULT 5)", "fencing_token"),
        ("CREATE TABLE files (path TEXT, fencing_token AS (5))", "fencing_token"),
        ("CREATE VIEW files AS SELECT 'a' AS path", "a view"),
    ] {
        let place = with(create).await;
        let error = protect(&place).await.expect_err(create);
        assert!(matches!(error, ProtectError::Unguardable { .. }), "{create}: {error:?}");
        assert!(error.to_string().contains(why), "{create}: {error}");
        assert_eq!(number(&place.pool, TRIGGERS).await, 0);
    }
}

/// Foreign keys fire triggers, and the token of the row that was deleted counts for them.
#[tokio::test]
async fn what_a_foreign_key_deletes_is_checked() {
    let tables = "CREATE TABLE folders (name TEXT PRIMARY KEY);
        CREATE TABLE files (path TEXT PRIMARY KEY, folder TEXT REFERENCES folders ON DELETE CASCADE)";
    let place = with(tables).await;
    protect(&place).await.unwrap();
    let insert = "INSERT INTO folders VALUES ('f');
        INSERT INTO files (path, folder, fencing_token) VALUES ('a', 'f', 34)";
    run(&place.pool, insert).await;
    unpresented(attempt(&place.pool, "DELETE FROM folders").await);
    Protect::rows("folders", "name").unwrap().apply(&place.pool).await.unwrap();
    stale(attempt(&place.pool, "UPDATE folders SET fencing_token = -33").await);
    run(&place.pool, "UPDATE folders SET fencing_token = -34").await;
    assert_eq!(number(&place.pool, "SELECT count(*) FROM files").await, 0);
}

#[tokio::test]
async fn the_catalogue_says_what_is_missing() {
    for (change, expected) in [
        ("DROP TRIGGER fencing_delete_files", "fencing_delete_files is missing"),
        (
            "DROP TRIGGER fencing_delete_files;
            CREATE TRIGGER fencing_delete_files AFTER DELETE ON files BEGIN SELECT 1; END",
            "fencing_delete_files is not the one",
        ),
        ("ALTER TABLE files RENAME TO other; ALTER TABLE other RENAME TO files", ""),
        // As SQLite's documentation has it for changes that ALTER TABLE can't make.
        (
            "CREATE TABLE anew (path TEXT PRIMARY KEY, more TEXT, fencing_token INTEGER);
            INSERT INTO anew (path) SELECT path FROM files;
            DROP TABLE files; ALTER TABLE anew RENAME TO files",
            "no trigger of the fence",
        ),
        ("DROP TABLE files; CREATE TABLE files (path TEXT PRIMARY KEY)", "it is not protected"),
    ] {
        is_found_and_mended(&protected("path TEXT PRIMARY KEY, rowid TEXT").await, change, expected).await;
    }
}

#[tokio::test]
async fn a_table_that_was_renamed_has_one_set_of_triggers() {
    let place = with("CREATE TABLE other (path TEXT PRIMARY KEY)").await;
    by_path("other").apply(&place.pool).await.unwrap();
    run(&place.pool, "ALTER TABLE other RENAME TO files").await;
    assert!(faults(&place).await.contains("for a table of another name"));
    Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap_err();
    attempt(&place.pool, "INSERT INTO files (path) VALUES ('a')").await.unwrap_err();
    protect(&place).await.unwrap();
    assert_eq!(faults(&place).await, "");
    assert_eq!(number(&place.pool, TRIGGERS).await, 5);
}

#[tokio::test]
async fn names_of_tables_that_differ_in_case_are_one() {
    let place = with("CREATE TABLE Files (path TEXT PRIMARY KEY, id TEXT)").await;
    for name in ["FILES", "files", "Main.fileS"] {
        by_path(name).apply(&place.pool).await.unwrap();
        let refused = Protect::rows(name, "id").unwrap().apply(&place.pool).await;
        assert!(matches!(refused, Err(ProtectError::Unguardable { .. })), "{name}: {refused:?}");
        for name in [Some(name), None] {
            let found = sql::protected(&place.pool, name).await.unwrap();
            assert!(found.len() == 1 && found[0].is_whole() && found[0].table == "Files", "{name:?}: {found:?}");
        }
    }
    found(&place.pool, "FILES").await.remove(&place.pool).await.unwrap();
    run(&place.pool, "INSERT INTO files (path) VALUES ('a')").await;
}

#[tokio::test]
async fn a_table_of_an_attached_database_does_not_get_other_names() {
    let place = protected("path TEXT PRIMARY KEY, id TEXT").await;
    let file = place.pool.connect_options().get_filename().display().to_string();
    let main = migrated().await;
    let pool = single(&main.pool);
    run(&pool, &format!("ATTACH '{file}' AS Other")).await;
    let refused = Protect::rows("other.FILES", "id").unwrap().apply(&pool).await;
    assert!(matches!(refused, Err(ProtectError::Unguardable { .. })), "{refused:?}");
    by_path("other.files").apply(&pool).await.unwrap();
    assert_eq!(faults(&place).await, "");
    let found = found(&pool, "other.files").await;
    assert!(found.is_whole() && found.table == "Other.files", "{found:?}");
    found.remove(&pool).await.unwrap();
    run(&place.pool, "INSERT INTO files (path) VALUES ('a')").await;
}

/// SQLite fires no trigger for the row that gives way, unless the session asks for that.
#[tokio::test]
async fn what_replace_removes_is_said_not_to_be_seen() {
    let place = protected("path TEXT PRIMARY KEY, id INTEGER UNIQUE").await;
    let unseen = found(&place.pool, "files").await.unseen.join("; ");
    assert!(unseen.contains("OR REPLACE"), "{unseen}");
    run(&place.pool, "INSERT INTO files (path, id, fencing_token) VALUES ('a', 1, 34)").await;
    // The row that gives way has the name that is checked.
    for replace in [
        "REPLACE INTO files (path, id, fencing_token) VALUES ('a', 2, 33)",
        "INSERT OR REPLACE INTO files (path, id, fencing_token) VALUES ('a', 1, 33)",
    ] {
        stale(attempt(&place.pool, replace).await);
    }
    run(&place.pool, "INSERT INTO files (path, id, fencing_token) VALUES ('b', 2, 1)").await;
    let replace = "UPDATE OR REPLACE files SET path = 'a', fencing_token = 33 WHERE path = 'b'";
    stale(attempt(&place.pool, replace).await);
    // It has another name.
    let replace = "PRAGMA recursive_triggers = ON;
        REPLACE INTO files (path, id, fencing_token) VALUES ('c', 1, 1)";
    unpresented(attempt(&place.pool, replace).await);
}

/// A dump has the marks first, and then the floor.
#[tokio::test]
async fn a_floor_that_is_inserted_raises_the_one_that_is_there() {
    let marks = "INSERT INTO fencing_marks VALUES ('low', 5, 1), ('s', 500, 1)";
    let place = with(&format!("{marks}; INSERT INTO fencing_floor VALUES (1, 10)")).await;
    // The sum shows that there is one.
    let floor = async || number(&place.pool, "SELECT sum(token) FROM fencing_floor").await;
    assert_eq!(floor().await, 10);
    for (way, lower) in [("", 9), (" OR REPLACE", 0), (" OR IGNORE", 9), (" OR REPLACE", 9)] {
        let insert = format!("INSERT{way} INTO fencing_floor VALUES (1, {lower})");
        let error = attempt(&place.pool, &insert).await.unwrap_err().to_string();
        assert!(error.contains("a mark is never lowered"), "{way}: {error}");
    }
    run(&place.pool, "INSERT OR REPLACE INTO fencing_floor VALUES (1, 11)").await;
    assert_eq!(floor().await, 11);
    for (name, number) in [("r", 5), ("r", 11), ("low", 4), ("s", 499)] {
        stale(sql::begin(&place.pool, &named(name), token(number)).await);
    }
    for (name, number) in [("low", 5), ("s", 500), ("r", 12)] {
        raise(&place.pool, &named(name), number).await;
    }
}
