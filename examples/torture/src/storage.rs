//! The storage services, and their databases' own log of what was written.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use sqlx::{Executor, PgPool, SqlitePool};

use support::history::Stored;
use support::postgres::PostgresServer;

/// A storage_service process and what is behind it.
pub struct Storage {
    pub child: Child,
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
        let (child, address) = start(&url, unguarded)?;
        let pool = SqlitePool::connect(&url).await?;
        pool.execute(sqlx::raw_sql(SQLITE)).await?;
        Ok(Storage { child, address, database: Database::Sqlite(pool, folder) })
    }

    pub async fn postgres(unguarded: bool) -> Result<Storage, Box<dyn Error>> {
        use sqlx::ConnectOptions;
        let server = PostgresServer::with(&["fsync=off"]);
        let options = server.database().await;
        let (child, address) = start(options.to_url_lossy().as_ref(), unguarded)?;
        let pool = PgPool::connect_with(options).await?;
        pool.execute(sqlx::raw_sql(POSTGRES)).await?;
        Ok(Storage { child, address, database: Database::Postgres(pool, server) })
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

impl Drop for Storage {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The storage service beside this program.
fn start(database: &str, unguarded: bool) -> Result<(Child, String), Box<dyn Error>> {
    let binary = std::env::current_exe()?.with_file_name("storage_service");
    let mut command = Command::new(&binary);
    command.args(["--listen", "127.0.0.1:0", "--database", database, "--lock", "elsewhere"]);
    command.args(unguarded.then_some("--unguarded"));
    command.env_remove("FENCING_REDIS").env_remove("DATABASE_URL");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let missing = "build it with -p torture -p storage_service";
    let mut child =
        command.spawn().map_err(|error| format!("{}: {error}: {missing}", binary.display()))?;
    let output = child.stdout.take().ok_or("no output")?;
    let mut output = BufReader::new(output);
    let mut line = String::new();
    output.read_line(&mut line)?;
    let address = line.trim().rsplit_once("http://").ok_or("storage_service failed")?.1.to_owned();
    // Somebody has to read on, or the service blocks.
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    Ok((child, address))
}
