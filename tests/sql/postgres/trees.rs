//! Protected tables that consist of several: partitions, and children by INHERITS.

use super::server::triggers::{is_stale, write};
use super::setup::*;

/// A protected table `files` with two more, `files_1` and `files_2`, and the row `a` with the mark 34 in one of them.
async fn tree(create: &'static str) -> Place {
    let place = with(create).await;
    protect(&place).await;
    protect(&place).await;
    place
}

async fn protect(place: &Place) {
    by_path("files").apply(&place.pool).await.unwrap();
}

const PARTITIONS: &str = "CREATE TABLE files (path text, body text) PARTITION BY LIST (path);
    CREATE TABLE files_1 PARTITION OF files FOR VALUES IN ('a') PARTITION BY LIST (path);
    CREATE TABLE files_1_1 PARTITION OF files_1 DEFAULT;
    CREATE TABLE files_2 PARTITION OF files FOR VALUES IN ('b')";

const CHILDREN: &str = "CREATE TABLE files (path text, body text);
    CREATE TABLE files_1 (more text) INHERITS (files);
    CREATE TABLE files_1_1 () INHERITS (files_1);
    CREATE TABLE files_2 () INHERITS (files)";

async fn is_guarded(place: &Place, tables: &[&str]) {
    write(place, 34, "INSERT INTO files_1_1 (path, body) VALUES ('a', 'new')").unwrap();
    for table in tables {
        let error = place.client(&format!("TRUNCATE {table} CASCADE")).expect_err(table);
        assert!(error.contains("no token presented"), "{table}: {error}");
    }
    for table in ["files", "files_1", "files_1_1"] {
        for write in [
            format!("UPDATE {table} SET body = 'stale'"),
            format!("DELETE FROM {table}"),
            format!("INSERT INTO {table} (path, body) VALUES ('a', 'stale')"),
        ] {
            is_stale(place, "files/a", &write);
            place.client(&write).expect_err(&write);
        }
    }
    assert_eq!(number(&place.pool, "SELECT count(*) FROM files WHERE path = 'a' AND body = 'new'").await, 1);
}

#[tokio::test]
async fn partitions_are_guarded_each() {
    let place = tree(PARTITIONS).await;
    is_guarded(&place, &["files", "files_1", "files_1_1", "files_2"]).await;
    // A row that moves to another partition is deleted from the one and inserted in the other.
    write(&place, 40, "INSERT INTO files VALUES ('b', 'b')").unwrap();
    write(&place, 40, "DELETE FROM files WHERE path = 'b'").unwrap();
    let moved = "UPDATE files SET path = 'b' WHERE path = 'a'";
    for number in [33, 39] {
        let error = write(&place, number, moved).unwrap_err();
        assert!(error.contains("is stale"), "{error}");
    }
    write(&place, 40, moved).unwrap();
}

#[tokio::test]
async fn a_partition_that_comes_later_is_guarded_against_rows_and_after_a_second_time_whole() {
    let place = tree(PARTITIONS).await;
    let partition = "CREATE TABLE files_3 (path text, body text);
        ALTER TABLE files ATTACH PARTITION files_3 FOR VALUES IN ('c')";
    run(&place.pool, partition).await;
    write(&place, 34, "INSERT INTO files_3 VALUES ('c', 'new')").unwrap();
    write(&place, 33, "UPDATE files_3 SET body = 'stale'").unwrap_err();
    protect(&place).await;
    is_guarded(&place, &["files_3"]).await;
}

#[tokio::test]
async fn children_are_guarded_as_well() {
    let place = tree(CHILDREN).await;
    is_guarded(&place, &["files", "files_1", "files_1_1", "files_2"]).await;
    run(&place.pool, "CREATE TABLE files_3 () INHERITS (files)").await;
    protect(&place).await;
    let found = sql::protected(&place.pool, None).await.unwrap();
    assert!(found.iter().all(sql::Protected::is_whole), "{found:?}");
    place.client("INSERT INTO files_3 VALUES ('c', 'bad')").unwrap_err();
}

#[tokio::test]
async fn the_catalogue_says_what_is_missing() {
    for (change, expected) in [
        ("ALTER TABLE files DISABLE TRIGGER fencing_protect", "fencing_protect on files is disabled"),
        ("ALTER TABLE files DISABLE TRIGGER USER", "fencing_protect_truncate on files is disabled"),
        ("ALTER TABLE files_2 DISABLE TRIGGER USER", "fencing_protect on files_2 is disabled"),
        ("DROP TRIGGER fencing_protect_truncate ON files_1_1", "fencing_protect_truncate on files_1_1 is missing"),
        (
            "CREATE TABLE files_3 PARTITION OF files FOR VALUES IN ('c')",
            "fencing_protect_truncate on files_3 is missing",
        ),
        (
            "DROP TRIGGER fencing_protect ON files; CREATE TRIGGER fencing_protect
            AFTER UPDATE ON files FOR EACH ROW EXECUTE FUNCTION fencing_protect('refuse', 'path', 'files/')",
            "fencing_protect on files is not the one",
        ),
    ] {
        let place = tree(PARTITIONS).await;
        let listed = sql::protected(&place.pool, None).await.unwrap();
        let [files] = &listed[..] else { panic!("{listed:?}") };
        assert_eq!((files.table.as_str(), files.resource.as_str()), ("files", "files/{path}"));
        assert_eq!(files.unseen.len(), 2, "{files:?}");
        is_found_and_mended(&place, change, expected).await;
    }
    let place = tree(PARTITIONS).await;
    run(&place.pool, "ALTER TABLE files RENAME path TO name").await;
    assert!(faults(&place).await.contains("has no column path"));
    let place = tree(CHILDREN).await;
    let found = sql::protected(&place.pool, None).await.unwrap();
    assert!(found.len() == 4 && found.iter().all(sql::Protected::is_whole), "{found:?}");
}

#[tokio::test]
async fn the_triggers_of_all_are_taken_off() {
    for create in [PARTITIONS, CHILDREN] {
        let place = tree(create).await;
        let found = sql::protected(&place.pool, Some("public.files")).await.unwrap();
        found[0].remove(&place.pool).await.unwrap();
        let left =
            "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'fencing%' AND tgrelid::regclass::text LIKE 'files%'";
        assert_eq!(number(&place.pool, left).await, 0);
        assert_eq!(sql::protected(&place.pool, None).await.unwrap(), []);
    }
}
