//! `fencing migrate --print`: what it prints can be applied twice, and removed.

use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, MySqlConnection, PgConnection, SqliteConnection,
};
use support::cli::finish;
use support::clients::output;
use support::mariadb::MariadbServer;
use support::postgres::PostgresServer;

fn fencing(arguments: &[&str]) -> String {
    let mut command = support::cli::fencing(&[]);
    command.env_remove("FENCING_REDIS").args(arguments);
    let ended = finish(command);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    ended.stdout
}

fn printed(kind: &str, more: &[&str]) -> String {
    fencing(&[&["migrate", "--print", "--database", kind], more].concat())
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
            for _ in 0..2 {
                run(&mut conn, &printed(kind, &[])).await;
            }
            // Nothing is lost, and nothing is left to do.
            fencing(&["migrate", "--database", url]);
            let raise = ["marks", "raise", "--resource", "a", "--token", "34", "--yes"];
            fencing(&[&raise[..], &["--database", url]].concat());
            assert!(tables(&mut conn).await > 4);
            run(&mut conn, &printed(kind, &["--down"])).await;
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

#[tokio::test]
async fn what_is_printed_for_postgresql_creates_and_removes_the_fence() {
    let server = PostgresServer::start();
    let options = server.database().await;
    let url = options.to_url_lossy().to_string();
    postgres(options.connect().await.unwrap(), "postgres:", &url).await;
    for down in [&[][..], &["--down"]] {
        let text = printed("postgres:", down);
        let client = &mut server.client(options.get_database().unwrap());
        output(client.arg("-c").arg(text)).unwrap();
    }
}

#[tokio::test]
async fn what_is_printed_for_mariadb_creates_and_removes_the_fence() {
    let server = MariadbServer::start();
    let options = server.database().await;
    let name = options.get_database().unwrap().to_owned();
    let url = options.to_url_lossy().to_string();
    mysql(options.connect().await.unwrap(), "mysql:", &url).await;
    // The client cuts at each semicolon.
    for down in [&[][..], &["--down"]] {
        let text = printed("mysql:", down);
        output(server.client(&name).arg("-e").arg(text)).unwrap();
    }
}

#[tokio::test]
async fn what_is_printed_for_sqlite_creates_and_removes_the_fence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.db");
    let url = format!("sqlite:{}", file.display());
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file).create_if_missing(true);
    sqlite(options.connect().await.unwrap(), "sqlite:", &url).await;
}
