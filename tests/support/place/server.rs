//! What is the same on every database that is a server.

use sqlx::Pool;

use super::{Db, IMPATIENT, MARK, PATIENT, Place, READ_ONLY, pool, presented};
use crate::clients::quote;

/// What else a session may hide behind a temporary table.
pub const TEMPORARY: &str = "SELECT 1";

/// Errors have a SQLSTATE.
pub const STATES: &str = "ZF";

/// Writes of a client in another language, with a token or without.
pub fn insert(token: Option<&str>, path: &str, body: &str) -> String {
    presented(token, &format!("INSERT INTO documents VALUES ('{path}', '{body}')"))
}

pub fn update(token: Option<&str>, path: &str, body: &str) -> String {
    presented(token, &format!("UPDATE documents SET body = '{body}' WHERE path = '{path}'"))
}

pub fn rename(token: Option<&str>, path: &str, to: &str) -> String {
    presented(token, &format!("UPDATE documents SET path = '{to}' WHERE path = '{path}'"))
}

pub fn delete(token: Option<&str>, path: &str) -> String {
    presented(token, &format!("DELETE FROM documents WHERE path = '{path}'"))
}

/// What a write of the driver presents by itself: nothing, as it was presented before.
pub fn presents(_: &fencing::Sequencer) -> String {
    String::new()
}

/// The same through the driver, where the token was presented before.
pub fn guarded(_: Option<u64>) -> String {
    "UPDATE documents SET body = 'guarded' WHERE path = 'a'".to_owned()
}

pub fn create(table: &str, column: &str) -> String {
    format!("CREATE TABLE {} ({} VARCHAR(255))", quote(table, MARK), quote(column, MARK))
}

pub fn insert_into(table: &str, value: &str) -> String {
    format!("INSERT INTO {} VALUES ('{value}')", quote(table, MARK))
}

impl Place {
    /// A pool as another process would have it.
    pub fn other(&self) -> Pool<Db> {
        pool(self.options.clone())
    }

    /// A pool that waits for a lock as long as the database does by itself.
    pub fn patient(&self) -> Pool<Db> {
        self.with(PATIENT)
    }

    /// A pool that may not write.
    pub fn read_only(&self) -> Pool<Db> {
        self.with(READ_ONLY)
    }

    /// A pool that hardly waits for a lock.
    pub fn impatient(&self) -> Pool<Db> {
        self.with(IMPATIENT)
    }
}
