//! What is the same on every database that is a server.

use std::sync::OnceLock;

use sqlx::pool::PoolOptions;
use sqlx::{Connection, Database, Pool};

use super::{CLIENT_RUNS, Db, IMPATIENT, MARK, PATIENT, READ_ONLY, SETTINGS, Server, presented};
use crate::clients::{output, quote};

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

type Options = <<Db as Database>::Connection as Connection>::Options;

pub fn pool(options: Options) -> Pool<Db> {
    PoolOptions::new().max_connections(20).connect_lazy_with(options)
}

/// A server of the test's own, with these settings besides, and a database on it with our tables.
pub async fn served(settings: &[&str]) -> (Server, Pool<Db>) {
    let server = Server::with(settings);
    let pool = pool(server.database().await);
    fencing::sql::migrate(&pool).await.unwrap();
    (server, pool)
}

pub(super) fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| Server::with(SETTINGS))
}

/// One database of its own, on a server that the tests share.
pub struct Place {
    pub(super) options: Options,
    pub pool: Pool<Db>,
}

impl Place {
    pub async fn empty() -> Place {
        let options = shared().database().await;
        Place { pool: pool(options.clone()), options }
    }

    pub(super) fn name(&self) -> &str {
        self.options.get_database().unwrap()
    }

    /// Runs statements through the client of the server: what it printed, or its error.
    pub fn client(&self, statements: &str) -> Result<String, String> {
        output(shared().client(self.name()).args([CLIENT_RUNS, statements]))
    }

    /// A pool as another process would have it.
    pub fn other(&self) -> Pool<Db> {
        pool(self.options.clone())
    }

    /// A pool that waits for a lock as long as the database does by itself.
    pub fn patient(&self) -> Pool<Db> {
        self.with(PATIENT)
    }

    pub fn read_only(&self) -> Pool<Db> {
        self.with(READ_ONLY)
    }

    pub fn impatient(&self) -> Pool<Db> {
        self.with(IMPATIENT)
    }
}
