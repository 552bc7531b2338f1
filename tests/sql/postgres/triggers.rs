//! Triggers of the application beside those of a protected table, and columns that the database
//! fills in.

use super::place::Place;
use super::setup::{by_path, run, with};

const LOWER: &str = "CREATE FUNCTION lower_path() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN NEW.path := lower(NEW.path); RETURN NEW; END';
    CREATE TRIGGER zz_lower BEFORE INSERT OR UPDATE ON files FOR EACH ROW
    EXECUTE FUNCTION lower_path()";

/// A protected table with this column, before the triggers of the application are there.
async fn protected(column: &str) -> Place {
    let place =
        with(&format!("CREATE TABLE files (id bigint PRIMARY KEY, body text, path {column})"))
            .await;
    by_path("files").apply(&place.pool).await.unwrap();
    place
}

fn presenting(token: u64, write: &str) -> String {
    format!("BEGIN; SELECT fencing_present('{token}'); {write}; COMMIT")
}

async fn bodies(place: &Place) -> Vec<String> {
    let bodies = sqlx::query_scalar("SELECT body FROM files ORDER BY id");
    bodies.fetch_all(&place.pool).await.unwrap()
}

fn is_stale(place: &Place, write: &str) {
    let error = place.client(write).expect_err(write);
    let words = "fencing: token 1 is stale, high water 34, resource files/a";
    assert!(error.contains(words), "{write}: {error}");
}

#[tokio::test]
async fn a_trigger_that_renames_later_is_seen() {
    let place = protected("text UNIQUE").await;
    run(&place.pool, LOWER).await;
    place.client(&presenting(34, "INSERT INTO files VALUES (1, 'new', 'A')")).unwrap();
    place.client(&presenting(1, "INSERT INTO files VALUES (2, 'b', 'B')")).unwrap();
    for write in [
        "INSERT INTO files VALUES (3, 'stale', 'A')
            ON CONFLICT (path) DO UPDATE SET body = excluded.body",
        "UPDATE files SET body = 'stale', path = 'A' WHERE path = 'a'",
    ] {
        is_stale(&place, &presenting(1, write));
    }
    // The row is gone, and its mark is not.
    place.client(&presenting(34, "DELETE FROM files WHERE path = 'a'")).unwrap();
    is_stale(&place, &presenting(1, "INSERT INTO files VALUES (3, 'stale', 'A')"));
    is_stale(
        &place,
        &presenting(1, "UPDATE files SET body = 'stale', path = 'A' WHERE path = 'b'"),
    );
    assert_eq!(bodies(&place).await, ["b"]);
    place.client(&presenting(35, "UPDATE files SET body = 'newer', path = 'A'")).unwrap();
    assert_eq!(bodies(&place).await, ["newer"]);
}

#[tokio::test]
async fn a_generated_column_names_the_resource() {
    let place = protected("text GENERATED ALWAYS AS (chr(96 + id::int)) STORED").await;
    place.client(&presenting(34, "INSERT INTO files VALUES (1, 'new')")).unwrap();
    place.client(&presenting(1, "INSERT INTO files VALUES (2, 'b')")).unwrap();
    is_stale(&place, &presenting(1, "UPDATE files SET body = 'stale' WHERE id = 1"));
    place.client(&presenting(34, "DELETE FROM files WHERE id = 1")).unwrap();
    is_stale(&place, &presenting(1, "INSERT INTO files VALUES (1, 'stale')"));
    is_stale(&place, &presenting(1, "UPDATE files SET id = 1, body = 'stale' WHERE id = 2"));
    assert_eq!(bodies(&place).await, ["b"]);
}

#[tokio::test]
async fn what_a_foreign_key_changes_is_checked() {
    let place = protected("text UNIQUE, folder text").await;
    let folders = "CREATE TABLE folders (name text PRIMARY KEY);
        ALTER TABLE files ADD FOREIGN KEY (folder) REFERENCES folders
            ON DELETE CASCADE ON UPDATE CASCADE;
        INSERT INTO folders VALUES ('f')";
    run(&place.pool, folders).await;
    place.client(&presenting(34, "INSERT INTO files VALUES (1, 'new', 'a', 'f')")).unwrap();
    for write in ["DELETE FROM folders", "UPDATE folders SET name = 'g'"] {
        is_stale(&place, &presenting(1, write));
        place.client(write).unwrap_err();
    }
    place.client(&presenting(34, "DELETE FROM folders")).unwrap();
    assert_eq!(bodies(&place).await, [""; 0]);
}
