//! Triggers of the application in the words of PostgreSQL, and foreign keys.

use super::server::triggers::{bodies, is_stale, write};
use super::setup::*;

pub const PATH: &str = "path text PRIMARY KEY";

pub const LOWER: &str = "CREATE FUNCTION lower_path() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN NEW.path := lower(NEW.path); RETURN NEW; END';
    CREATE TRIGGER zz_lower BEFORE INSERT OR UPDATE ON files FOR EACH ROW
    EXECUTE FUNCTION lower_path()";

/// Writes over the row that is there, and after it is gone.
pub const OVER: &[&str] = &["INSERT INTO files VALUES ('A', 'stale')
    ON CONFLICT (path) DO UPDATE SET body = excluded.body"];
pub const AGAIN: &[&str] = OVER;

/// Columns that the database fills in, what the row 1 is named, and whether another row 1 has that name.
pub const FILLED: &[(&str, &str, bool)] =
    &[("id INT PRIMARY KEY, path text GENERATED ALWAYS AS (chr(96 + id)) STORED", "files/a", true)];

pub const ANEW: &str = "CREATE TABLE anew (LIKE files INCLUDING ALL);
    ALTER TABLE files RENAME TO old; ALTER TABLE anew RENAME TO files";

/// A crash empties a table that is not logged: the marks would start again.
pub const ENGINES: &[(&str, &str, &str)] = &[
    ("fencing_marks", "SET UNLOGGED", "fencing_marks is not logged"),
    ("fencing_leases", "SET UNLOGGED", "fencing_leases is not logged"),
];
pub const NO_KEY: &str = "ALTER TABLE fencing_leases DROP CONSTRAINT fencing_leases_pkey";
pub const KEEPS: &str = "SET LOGGED";

#[tokio::test]
async fn what_a_foreign_key_changes_is_checked() {
    let place = protected("path text UNIQUE, folder text").await;
    let folders = "CREATE TABLE folders (name text PRIMARY KEY);
        ALTER TABLE files ADD FOREIGN KEY (folder) REFERENCES folders
            ON DELETE CASCADE ON UPDATE CASCADE;
        INSERT INTO folders VALUES ('f')";
    run(&place.pool, folders).await;
    write(&place, 34, "INSERT INTO files VALUES ('a', 'f', 'new')").unwrap();
    for write in ["DELETE FROM folders", "UPDATE folders SET name = 'g'"] {
        is_stale(&place, "files/a", write);
        place.client(write).unwrap_err();
    }
    write(&place, 34, "DELETE FROM folders").unwrap();
    assert_eq!(bodies(&place).await, [""; 0]);
}
