//! The storage services, and their databases' own log of what was written.

use std::collections::BTreeMap;
use std::error::Error;
use std::process::{Command, Stdio};

use sqlx::{Executor, PgPool, SqlitePool};

use support::cli::{Running, binary};
use support::history::Stored;
use support::postgres::PostgresServer;

/// A storage_service process and what is behind it.
pub struct Storage {
    pub service: Running,
    pub address: String,
    database: Database,
}

enum Database {
    Sqlite(SqlitePool, #[allow(dead_code, reason = "it lives as long")] tempfile::TempDir),
    Postgres(PgPool, #[allow(dead_code, reason = "it lives as long")] PostgresServer),
}

const SQLITE: &str = "
CREATE TABLE audit (id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT, body BLOB, token INTEGER);
CREATE TRIGGER audit_insert AFTER INSERT ON files BEGIN
  INSERT INTO audit (path, body, token) VALUES (new.path, new.body, new.token); END;
CREATE TRIGGER audit_update AFTER UPDATE ON files BEGIN
  INSERT INTO audit (path, body, token) VALUES (new.path, new.body, new.token); END;";

const POSTGRES: &str = "
CREATE TABLE audit (id BIGSERIAL PRIMARY KEY, path TEXT, body BYTEA, token BIGINT);
CREATE FUNCTION audit_write() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO audit (path, body, token) VALUES (new.path, new.body, new.token);
  RETURN NULL; END $$;
CREATE TRIGGER audit AFTER INSERT OR UPDATE ON files
  FOR EACH ROW EXECUTE FUNCTION audit_write();";

impl Storage {
    pub async fn sqlite(unguarded: bool) -> Result<Storage, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let url = format!("sqlite:{}/files.db", folder.path().display());
        let (service, address) = start(&url, unguarded);
        let pool = SqlitePool::connect(&url).await?;
        pool.execute(sqlx::raw_sql(SQLITE)).await?;
        Ok(Storage { service, address, database: Database::Sqlite(pool, folder) })
    }

    pub async fn postgres(unguarded: bool) -> Result<Storage, Box<dyn Error>> {
        use sqlx::ConnectOptions;
        let server = PostgresServer::with(&["fsync=off"]);
        let options = server.database().await;
        let (service, address) = start(options.to_url_lossy().as_ref(), unguarded);
        let pool = PgPool::connect_with(options).await?;
        pool.execute(sqlx::raw_sql(POSTGRES)).await?;
        Ok(Storage { service, address, database: Database::Postgres(pool, server) })
    }

    /// What was accepted, in its order, and what is stored now.
    pub async fn read(&self) -> Result<(Vec<Stored>, BTreeMap<String, Stored>), Box<dyn Error>> {
        let accepted = self.rows("SELECT path, body, token FROM audit ORDER BY id").await?;
        let files = self.rows("SELECT path, body, token FROM files").await?.into_iter();
        Ok((accepted, files.map(|file| (file.resource.clone(), file)).collect()))
    }

    async fn rows(&self, query: &'static str) -> Result<Vec<Stored>, sqlx::Error> {
        let rows: Vec<(String, Vec<u8>, Option<i64>)> = match &self.database {
            Database::Sqlite(pool, _) => sqlx::query_as(query).fetch_all(pool).await?,
            Database::Postgres(pool, _) => sqlx::query_as(query).fetch_all(pool).await?,
        };
        let stored = |(resource, body, token): (_, Vec<u8>, Option<i64>)| Stored {
            resource,
            token: token.unwrap_or(0) as u64,
            value: String::from_utf8_lossy(&body).into_owned(),
        };
        Ok(rows.into_iter().map(stored).collect())
    }
}

/// The storage service beside this program.
fn start(database: &str, unguarded: bool) -> (Running, String) {
    let mut command = Command::new(binary("storage_service"));
    command.args(["--listen", "127.0.0.1:0", "--database", database, "--lock", "elsewhere"]);
    command.args(unguarded.then_some("--unguarded"));
    command.env_remove("FENCING_REDIS").env_remove("DATABASE_URL");
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let mut service = Running::start(command);
    let address = service.until("storage_service on http://");
    (service, address)
}
