//! Triggers of the application beside those of a protected table.

use super::setup::*;

const UPDATED_AT: &str = "CREATE TRIGGER files_updated_at AFTER UPDATE ON files BEGIN
        UPDATE files SET updated_at = datetime('now') WHERE rowid = NEW.rowid;
    END;
    CREATE TRIGGER files_inserted_at AFTER INSERT ON files BEGIN
        UPDATE files SET updated_at = datetime('now') WHERE rowid = NEW.rowid;
    END";
const COUNTED: &str = "CREATE TRIGGER files_counted AFTER UPDATE ON files BEGIN
        UPDATE files SET writes = writes + 1 WHERE rowid = NEW.rowid;
    END";
const LOWER: &str = "CREATE TRIGGER files_lower AFTER UPDATE ON files BEGIN
        UPDATE files SET path = lower(path) WHERE rowid = NEW.rowid;
    END;
    CREATE TRIGGER files_lower_new AFTER INSERT ON files BEGIN
        UPDATE files SET path = lower(path) WHERE rowid = NEW.rowid;
    END";

/// A protected table with these triggers, created before those of the fence or after them.
async fn protected(triggers: &'static [&'static str], first: bool) -> Place {
    let columns = "path TEXT PRIMARY KEY, body TEXT, updated_at TEXT, writes INTEGER NOT NULL DEFAULT 0";
    let place = with(&format!("CREATE TABLE files ({columns})")).await;
    let (before, after) = if first { (triggers, &[][..]) } else { (&[][..], triggers) };
    run(&place.pool, &before.join(";")).await;
    by_path("files").apply(&place.pool).await.unwrap();
    run(&place.pool, &after.join(";")).await;
    place
}

async fn insert(place: &Place, path: &str, body: &str, token: u64) {
    let columns = "INSERT INTO files (path, body, fencing_token)";
    run(&place.pool, &format!("{columns} VALUES ('{path}', '{body}', {token})")).await;
}

async fn files(place: &Place) -> Vec<(String, String, Option<i64>)> {
    let files = sqlx::query_as("SELECT path, body, fencing_token FROM files ORDER BY path");
    files.fetch_all(&place.pool).await.unwrap()
}

fn file(path: &str, body: &str) -> (String, String, Option<i64>) {
    (path.into(), body.into(), None)
}

#[tokio::test]
async fn triggers_that_write_the_same_row_do_not_make_every_write_fail() {
    for triggers in [&[UPDATED_AT][..], &[UPDATED_AT, COUNTED], &[LOWER, UPDATED_AT, COUNTED]] {
        for first in [true, false] {
            let place = protected(triggers, first).await;
            insert(&place, "a", "1", 33).await;
            run(&place.pool, "UPDATE files SET body = '2', fencing_token = 34").await;
            let upsert = "INSERT INTO files (path, body, fencing_token) VALUES ('a', '', 34)
                ON CONFLICT DO UPDATE SET body = '3', fencing_token = 34";
            run(&place.pool, upsert).await;
            assert_eq!(files(&place).await, [file("a", "3")], "{triggers:?} {first}");
            assert_eq!(number(&place.pool, "SELECT count(updated_at) FROM files").await, 1);
            stale(attempt(&place.pool, "UPDATE files SET body = '4', fencing_token = 33").await);
            unpresented(attempt(&place.pool, "UPDATE files SET body = '4'").await);
            unpresented(attempt(&place.pool, "DELETE FROM files").await);
            run(&place.pool, "UPDATE files SET fencing_token = -34").await;
            assert_eq!(files(&place).await, []);
        }
    }
}

#[tokio::test]
async fn a_trigger_that_renames_later_is_seen() {
    for triggers in [&[LOWER][..], &[LOWER, UPDATED_AT], &[COUNTED, LOWER]] {
        for first in [true, false] {
            let place = protected(triggers, first).await;
            insert(&place, "a", "new", 34).await;
            assert_eq!(files(&place).await, [file("a", "new")], "{triggers:?} {first}");
            run(&place.pool, "UPDATE files SET fencing_token = -34").await;
            insert(&place, "B", "b", 1).await;
            for statement in [
                "INSERT INTO files (path, body, fencing_token) VALUES ('A', 'stale', 1)",
                "UPDATE files SET path = 'A', body = 'stale', fencing_token = 1",
            ] {
                let refused = stale(attempt(&place.pool, statement).await);
                assert_eq!(refused.resource, crate::common::resource(), "{triggers:?} {first}");
            }
            assert_eq!(files(&place).await, [file("b", "b")]);
        }
    }
}

/// Another row is another resource, which its own mark guards.
#[tokio::test]
async fn a_trigger_that_writes_another_row_needs_the_token_for_that_too() {
    const INDEX: &str = "CREATE TRIGGER files_index AFTER UPDATE ON files WHEN NEW.path <> 'index'
        BEGIN UPDATE files SET writes = writes + 1, fencing_token = NEW.fencing_token
            WHERE path = 'index' AND NEW.fencing_token IS NOT NULL; END";
    for first in [true, false] {
        let place = protected(&[INDEX], first).await;
        insert(&place, "index", "", 34).await;
        insert(&place, "a", "1", 1).await;
        let statement = "UPDATE files SET body = '2', fencing_token = 1 WHERE path = 'a'";
        let refused = stale(attempt(&place.pool, statement).await);
        assert_eq!(refused.resource.as_str(), "files/index");
        run(&place.pool, "UPDATE files SET body = '2', fencing_token = 34 WHERE path = 'a'").await;
        assert_eq!(files(&place).await, [file("a", "2"), file("index", "")]);
    }
}

/// A token that stayed in the row would stand for every later write to it.
#[tokio::test]
async fn a_trigger_that_keeps_the_token_in_the_row_is_refused() {
    const NOOP: &str = "CREATE TRIGGER files_noop BEFORE UPDATE ON files WHEN NEW.body IS OLD.body
        BEGIN SELECT RAISE(IGNORE); END";
    let place = protected(&[], true).await;
    insert(&place, "a", "1", 33).await;
    run(&place.pool, NOOP).await;
    let error = attempt(&place.pool, "UPDATE files SET body = '2', fencing_token = 34").await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("RAISE(IGNORE)"), "{error}");
    assert_eq!(files(&place).await, [file("a", "1")]);
    attempt(&place.pool, "UPDATE files SET body = 'no token'").await.unwrap_err();
    attempt(&place.pool, "UPDATE files SET body = 'no token', fencing_token = NULL").await.unwrap_err();
    assert_eq!(files(&place).await, [file("a", "1")]);
}

/// RAISE(FAIL) ends a statement and keeps what it has changed so far, the presented token too.
#[tokio::test]
async fn a_token_that_a_failed_statement_leaves_behind_is_not_presented_again() {
    const CHECKED: &str = "CREATE TRIGGER files_checked AFTER UPDATE ON files
        WHEN NEW.body = 'bad' AND NEW.fencing_token IS NULL
        BEGIN SELECT RAISE(FAIL, 'bad body'); END";
    for first in [true, false] {
        let place = protected(&[CHECKED], first).await;
        insert(&place, "a", "1", 33).await;
        insert(&place, "b", "1", 33).await;
        let bad = "UPDATE files SET body = 'bad', fencing_token = 34 WHERE path = 'a'";
        attempt(&place.pool, bad).await.unwrap_err();
        assert!(faults(&place).await.contains("remains in fencing_presented"));
        // Another statement has another time, unless it begins in the same millisecond.
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        unpresented(attempt(&place.pool, "UPDATE files SET body = 'no token' WHERE path = 'b'").await);
        run(&place.pool, "UPDATE files SET body = '2', fencing_token = 34 WHERE path = 'b'").await;
        assert_eq!(files(&place).await[1], file("b", "2"));
        assert_eq!(faults(&place).await, "");
    }
}

#[tokio::test]
async fn a_token_that_a_failed_statement_leaves_in_the_row_is_cleared_by_the_next() {
    const LOCKED: &str = "CREATE TRIGGER files_locked BEFORE DELETE ON files
        BEGIN SELECT RAISE(FAIL, 'locked'); END";
    for first in [true, false] {
        let place = protected(&[LOCKED], first).await;
        insert(&place, "a", "1", 33).await;
        attempt(&place.pool, "UPDATE files SET fencing_token = -34").await.unwrap_err();
        assert_eq!(files(&place).await, [("a".to_owned(), "1".to_owned(), Some(-34))]);
        assert!(faults(&place).await.contains("a row keeps a token"));
        run(&place.pool, "UPDATE files SET body = '2', fencing_token = 35").await;
        assert_eq!(faults(&place).await, "");
        assert_eq!(files(&place).await, [file("a", "2")]);
        unpresented(attempt(&place.pool, "UPDATE files SET body = 'no token'").await);
    }
}
