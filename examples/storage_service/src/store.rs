use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use fencing::lock::sql::SqlLock;
use fencing::lock::{BuildError, Lock};
use fencing::sql::{self, SqlMarks};
use fencing::{Fence, Resource, Token};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{Connection, MySqlConnection, MySqlPool, PgConnection, PgPool, SqlitePool};

use crate::locks::TTL;

/// Where the files are, and the marks beside them.
pub struct Store {
    pool: Pool,
    guarded: bool,
}

enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
    MySql(MySqlPool),
}

/// A stored file.
pub struct File {
    pub body: Vec<u8>,
    pub token: Option<Token>,
}

/// The same calls on each.
macro_rules! on {
    ($store:expr, $pool:ident => $body:expr) => {
        match &$store.pool {
            Pool::Sqlite($pool) => $body,
            Pool::Postgres($pool) => $body,
            Pool::MySql($pool) => $body,
        }
    };
}

/// What differs between the databases.
struct Statements {
    create: &'static str,
    write: &'static str,
    read: &'static str,
    lease: &'static str,
}

const SQLITE: Statements = Statements {
    create: "CREATE TABLE IF NOT EXISTS files (
        path TEXT PRIMARY KEY, body BLOB NOT NULL, token INTEGER)",
    write: "INSERT INTO files (path, body, token) VALUES ($1, $2, $3)
        ON CONFLICT (path) DO UPDATE SET body = excluded.body, token = excluded.token",
    read: "SELECT body, token FROM files WHERE path = $1",
    lease: "SELECT token FROM fencing_leases WHERE resource = $1",
};

const POSTGRES: Statements = Statements {
    create: "CREATE TABLE IF NOT EXISTS files (
        path TEXT PRIMARY KEY, body BYTEA NOT NULL, token BIGINT)",
    ..SQLITE
};

/// The name is bytes: a collation would take two files for one.
const MYSQL: Statements = Statements {
    create: "CREATE TABLE IF NOT EXISTS files (
        path VARBINARY(255) PRIMARY KEY, body LONGBLOB NOT NULL, token BIGINT)",
    write: "INSERT INTO files (path, body, token) VALUES (?, ?, ?)
        ON DUPLICATE KEY UPDATE body = VALUES(body), token = VALUES(token)",
    read: "SELECT body, token FROM files WHERE path = ?",
    lease: "SELECT token FROM fencing_leases WHERE resource = ?",
};

impl Store {
    pub async fn open(url: Option<&str>, guarded: bool) -> Result<Store, Box<dyn std::error::Error>> {
        let pool = match url {
            None => Pool::Sqlite(sqlite("sqlite::memory:").await?),
            Some(url) if url.starts_with("sqlite:") => Pool::Sqlite(sqlite(url).await?),
            // A pool hides for half a minute why it cannot connect.
            Some(url) if url.starts_with("postgres:") || url.starts_with("postgresql:") => {
                PgConnection::connect(url).await.map_err(not_connected)?.close().await?;
                Pool::Postgres(PgPool::connect(url).await?)
            }
            Some(url) if url.starts_with("mysql:") || url.starts_with("mariadb:") => {
                MySqlConnection::connect(url).await.map_err(not_connected)?.close().await?;
                Pool::MySql(MySqlPool::connect(url).await?)
            }
            Some(_) => {
                return Err("--database: the URL must begin with sqlite:, postgres: or mysql:".into());
            }
        };
        let store = Store { pool, guarded };
        on!(store, pool => {
            sql::migrate(pool).await?;
            sqlx::query(store.statements().create).execute(pool).await?;
        });
        let mine = store.read(&Resource::new("files/none")?).await;
        mine.map_err(|error| format!("the table files is not one of this service: {error}"))?;
        Ok(store)
    }

    /// The layer before the handlers. Dropping an older request is right here: a write is
    /// one transaction, so it is stored or not at all.
    pub fn fence(&self) -> Fence {
        on!(self, pool => Fence::new(SqlMarks::new(pool.clone()))).drop_older_after(Duration::ZERO)
    }

    /// Locks in the same database: one thing to run, and nothing else.
    pub fn lock(&self) -> Result<Arc<dyn Lock>, BuildError> {
        on!(self, pool => Ok(Arc::new(SqlLock::builder(pool.clone()).renew(false).ttl(TTL).build()?)))
    }

    fn statements(&self) -> &'static Statements {
        match &self.pool {
            Pool::Sqlite(_) => &SQLITE,
            Pool::Postgres(_) => &POSTGRES,
            Pool::MySql(_) => &MYSQL,
        }
    }

    pub fn is_guarded(&self) -> bool {
        self.guarded
    }

    /// Writes. Under a token the check shares the transaction of the write.
    pub async fn write(&self, resource: &Resource, token: Option<Token>, body: &[u8]) -> Result<(), sql::AdmitError> {
        on!(self, pool => {
            let mut tx = match token {
                Some(token) if self.guarded => sql::begin(pool, resource, token).await?,
                _ => pool.begin().await?,
            };
            let write = sqlx::query(self.statements().write).bind(resource.as_str()).bind(body);
            write.bind(token.map(i64::from)).execute(&mut *tx).await?;
            Ok(tx.commit().await?)
        })
    }

    pub async fn read(&self, resource: &Resource) -> Result<Option<File>, sqlx::Error> {
        let read = self.statements().read;
        let row: Option<(Vec<u8>, Option<i64>)> = on!(self, pool => {
            sqlx::query_as(read).bind(resource.as_str()).fetch_optional(pool).await?
        });
        Ok(row.map(|(body, number)| File { body, token: number.and_then(token) }))
    }

    /// Returns the token of the resource's newest lease, where the locks are here as well.
    pub async fn newest_lease(&self, resource: &Resource) -> Result<Option<Token>, sqlx::Error> {
        let newest: Option<i64> = on!(self, pool => {
            sqlx::query_scalar(self.statements().lease).bind(resource.as_str()).fetch_optional(pool).await?
        });
        Ok(newest.and_then(token))
    }

    pub async fn answers(&self) -> bool {
        on!(self, pool => sqlx::query("SELECT 1").execute(pool).await.is_ok())
    }
}

fn token(number: i64) -> Option<Token> {
    Token::try_from(number).ok()
}

fn not_connected(error: sqlx::Error) -> String {
    format!("cannot connect to the database: {error}")
}

async fn sqlite(url: &str) -> Result<SqlitePool, sqlx::Error> {
    let options = SqliteConnectOptions::from_str(url)?.create_if_missing(true);
    if url.contains(":memory:") {
        // Each connection would be a database of its own.
        let pool = SqlitePoolOptions::new().max_connections(1);
        return pool.idle_timeout(None).max_lifetime(None).connect_with(options).await;
    }
    SqlitePool::connect_with(options.journal_mode(SqliteJournalMode::Wal)).await
}
