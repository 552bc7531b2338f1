//! `fencing migrate --print` and `protect --print`: what is printed does what the command does, can be applied twice,
//! and removed.

use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, MySqlConnection, PgConnection, SqliteConnection,
};
use support::cli::ask;
use support::clients::output;
use support::mariadb::MariadbServer;
use support::postgres::PostgresServer;

fn printed(options: &str) -> String {
    ask("", options).printed()
}

/// What a driver sends that takes several statements in one message: the parts without what is meant for
/// MySQL's client.
fn parts(printed: &str) -> Vec<String> {
    let clean = printed.replace("DELIMITER ;\n", "").replace("DELIMITER $$\n", "");
    let parts = clean.split("$$\n").map(str::to_owned);
    parts.filter(|part| !part.trim().is_empty()).collect()
}

macro_rules! on {
    ($name:ident, $connection:ty, $tables:literal) => {
        async fn $name(mut conn: $connection, kind: &str, url: &str) {
            let run = async |conn: &mut $connection, text: &str| {
                for part in parts(text) {
                    let run = sqlx::raw_sql(AssertSqlSafe(part.clone()));
                    run.execute(&mut *conn).await.unwrap_or_else(|e| panic!("{e}\n{part}"));
                }
            };
            let tables = async |conn: &mut $connection| {
                sqlx::query_scalar::<_, i64>($tables).fetch_one(conn).await.unwrap()
            };
            let migrate = format!("migrate --print --database {kind}");
            for _ in 0..2 {
                run(&mut conn, &printed(&migrate)).await;
            }
            // Nothing is lost, and nothing is left to do.
            ask(url, "migrate").is(0);
            ask(url, "marks raise --resource a --token 34 --yes").is(0);
            assert!(tables(&mut conn).await > 4);
            run(&mut conn, &printed(&format!("{migrate} --down"))).await;
            assert_eq!(tables(&mut conn).await, 0);
            conn.close().await.unwrap();
        }
    };
}

on!(
    postgres,
    PgConnection,
    "SELECT (SELECT count(*) FROM pg_class WHERE relname LIKE '%fencing%')
        + (SELECT count(*) FROM pg_proc WHERE proname LIKE '%fencing%')"
);
on!(
    mysql,
    MySqlConnection,
    "SELECT (SELECT COUNT(*) FROM information_schema.tables
            WHERE table_schema = DATABASE() AND table_name LIKE '%fencing%')
        + (SELECT COUNT(*) FROM information_schema.routines
            WHERE routine_schema = DATABASE() AND routine_name LIKE '%fencing%')"
);
on!(sqlite, SqliteConnection, "SELECT count(*) FROM sqlite_schema WHERE name LIKE '%fencing%'");

/// The client cuts at each semicolon.
fn by_its_client(kind: &str, mut client: impl FnMut(String) -> Result<String, String>) {
    for down in ["", "--down"] {
        client(printed(&format!("migrate --print --database {kind} {down}"))).unwrap();
    }
}

#[tokio::test]
async fn what_is_printed_for_postgresql_creates_and_removes_the_fence() {
    let server = PostgresServer::start();
    let options = server.database().await;
    postgres(options.connect().await.unwrap(), "postgres:", options.to_url_lossy().as_str()).await;
    let name = options.get_database().unwrap();
    by_its_client("postgresql://x/y", |text| output(server.client(name).arg("-c").arg(text)));
}

#[tokio::test]
async fn what_is_printed_for_mariadb_creates_and_removes_the_fence() {
    let server = MariadbServer::start();
    let options = server.database().await;
    mysql(options.connect().await.unwrap(), "mysql:", options.to_url_lossy().as_str()).await;
    let name = options.get_database().unwrap();
    by_its_client("mariadb", |text| output(server.client(name).arg("-e").arg(text)));
}

#[tokio::test]
async fn what_is_printed_for_sqlite_creates_and_removes_the_fence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.db");
    let url = format!("sqlite:{}", file.display());
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file).create_if_missing(true);
    sqlite(options.connect().await.unwrap(), "sqlite:", &url).await;
}

#[tokio::test]
async fn what_is_printed_protects_a_table() {
    let protect = |kind: &str| {
        let table = "--table files --column path --prefix files/ --print";
        printed(&format!("protect --database {kind} {table}"))
    };
    let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let mut run =
        async |text: &str| sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(&mut conn).await;
    run(&printed("migrate --print --database sqlite")).await.unwrap();
    run("CREATE TABLE files (path TEXT PRIMARY KEY, fencing_token INTEGER)").await.unwrap();
    run(&protect("sqlite:")).await.unwrap();
    run("INSERT INTO files VALUES ('a', 33)").await.unwrap();
    let error = run("UPDATE files SET fencing_token = 32").await.unwrap_err().to_string();
    assert!(error.contains("token 32 is stale, high water 33, resource files/a"), "{error}");
    for kind in ["postgres:", "mysql:", "postgresql://x/y", "mariadb"] {
        assert!(protect(kind).contains("CREATE TRIGGER"), "{kind}");
    }
}
