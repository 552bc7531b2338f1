//! `fencing migrate --print` for other tools: the files, cut and applied as these tools document it.

use std::fs;
use std::path::Path;

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

/// The files of a tool for this database, by name.
fn files(kind: &str, form: &str) -> Vec<(String, String)> {
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().to_str().unwrap();
    let print = ["migrate", "--print", "--database", kind, "--form", form];
    assert_eq!(fencing(&[&print[..], &["--first", "41", "--into", into]].concat()), "");
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let read = fs::read_dir(into).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        read.map(|path| (name(&path), fs::read_to_string(path).unwrap())).collect();
    files.sort();
    files
}

/// What a tool sends on the way up, and on the way down, file by file.
fn sent(kind: &str, form: &str) -> (Vec<String>, Vec<String>) {
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for (name, text) in files(kind, form) {
        match form {
            "dbmate" => {
                let number = name.split('_').next().unwrap().parse::<u64>().unwrap();
                assert!(number >= 41, "{name}");
                let (_, text) = text.split_once("-- migrate:up\n").unwrap();
                let (upward, downward) = text.split_once("-- migrate:down\n").unwrap();
                up.push(upward.to_owned());
                down.insert(0, downward.to_owned());
            }
            "golang-migrate" => {
                assert!(name.starts_with("0000"), "{name}");
                match name.strip_suffix(".down.sql") {
                    Some(_) => down.insert(0, text),
                    None => up.push(text),
                }
            }
            "flyway" => {
                assert!(name.starts_with("R__fencing_00") && !text.contains("${"), "{name}");
                // As the client, it cuts at the delimiter that was set.
                let text = text.strip_prefix("DELIMITER $$\n").unwrap_or(&text);
                up.push(text.trim_end_matches("$$\nDELIMITER ;\n").to_owned());
            }
            _ => unreachable!(),
        }
    }
    (up, down)
}

/// Runs each text as one message, which drivers with several statements in one do.
macro_rules! on {
    ($name:ident, $connection:ty, $tables:literal) => {
        async fn $name(mut conn: $connection, kind: &str, url: &str) {
            let tables = async |conn: &mut $connection| {
                sqlx::query_scalar::<_, i64>($tables).fetch_one(conn).await.unwrap()
            };
            for form in ["dbmate", "golang-migrate", "flyway"] {
                let (up, down) = sent(kind, form);
                let downs = if form == "flyway" { 0 } else { up.len() };
                assert_eq!((up.len() >= 5, down.len()), (true, downs), "{form}");
                for text in up.iter().chain(&up) {
                    let run = sqlx::raw_sql(AssertSqlSafe(text.clone()));
                    run.execute(&mut conn).await.unwrap_or_else(|e| panic!("{form}: {e}\n{text}"));
                }
                // Nothing is lost, and nothing is left to do.
                fencing(&["migrate", "--database", url]);
                let raise = ["marks", "raise", "--resource", "a", "--token", "34", "--yes"];
                fencing(&[&raise[..], &["--database", url]].concat());
                let removal = vec![fencing(&["migrate", "--print", "--down", "--database", kind])];
                let removal = match (form, kind) {
                    ("flyway", "mysql:") => vec![
                        removal[0]
                            .split_once("$$\n")
                            .unwrap()
                            .1
                            .split_once("$$\n")
                            .unwrap()
                            .0
                            .into(),
                    ],
                    ("flyway", _) => removal,
                    _ => down,
                };
                assert!(tables(&mut conn).await > 4);
                for text in removal {
                    let run = sqlx::raw_sql(AssertSqlSafe(text.clone()));
                    run.execute(&mut conn).await.unwrap_or_else(|e| panic!("{form}: {e}\n{text}"));
                }
                assert_eq!(tables(&mut conn).await, 0, "{form}");
            }
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
async fn the_files_for_postgresql_create_and_remove_the_fence() {
    let server = PostgresServer::start();
    let options = server.database().await;
    let url = options.to_url_lossy().to_string();
    postgres(options.connect().await.unwrap(), "postgres:", &url).await;
    for down in [&[][..], &["--down"]] {
        let print = ["migrate", "--print", "--database", "postgres:"];
        let text = fencing(&[&print[..], down].concat());
        let client = &mut server.client(options.get_database().unwrap());
        output(client.arg("-c").arg(text)).unwrap();
    }
}

#[tokio::test]
async fn the_files_for_mariadb_create_and_remove_the_fence() {
    let server = MariadbServer::start();
    let options = server.database().await;
    let name = options.get_database().unwrap().to_owned();
    let url = options.to_url_lossy().to_string();
    mysql(options.connect().await.unwrap(), "mysql:", &url).await;
    // The client cuts at each semicolon.
    for down in [&[][..], &["--down"]] {
        let print = ["migrate", "--print", "--database", "mysql:"];
        let text = fencing(&[&print[..], down].concat());
        output(server.client(&name).arg("-e").arg(text)).unwrap();
    }
}

#[tokio::test]
async fn the_files_for_sqlite_create_and_remove_the_fence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.db");
    let url = format!("sqlite:{}", file.display());
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file).create_if_missing(true);
    sqlite(options.connect().await.unwrap(), "sqlite:", &url).await;
}
