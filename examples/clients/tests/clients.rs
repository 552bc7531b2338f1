//! Each example on a private server: what it says of a write, of a stale token, of another
//! transaction that is in the way, and of a server that is gone.

use std::path::Path;
use std::process::{Command, Stdio};

use fencing::sql;
use sqlx::Executor;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use support::lease::{named, token};
use support::mariadb::MariadbServer;
use support::postgres::PostgresServer;

/// An example with the arguments that lead it to its database.
struct Example {
    name: &'static str,
    place: Vec<String>,
}

impl Example {
    /// In the arguments `SOCKET` and `DATABASE` stand for those of the server.
    fn new(name: &'static str, place: &[&str], socket: &Path, database: Option<&str>) -> Example {
        let socket = socket.display().to_string();
        let filled = |argument: &&str| argument.replace("SOCKET", &socket).replace("DATABASE", database.unwrap());
        Example { name, place: place.iter().map(filled).collect() }
    }

    /// Writes once. Returns how the program ended, and what it printed.
    fn write(&self, number: u64, body: &str) -> (i32, String) {
        let Example { name, place } = self;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = match name.rsplit_once('.') {
            Some((_, "py")) => Command::new("/usr/bin/python3"),
            Some(_) => Command::new("node"),
            None => Command::new(env!("CARGO_BIN_EXE_with_tokio_postgres")),
        };
        if name.contains('.') {
            command.arg(folder.join(name));
        }
        // Where Debian has `pg`, and where tests/run puts it.
        let own = folder.join("../../target/clients/node_modules");
        command.env("NODE_PATH", format!("/usr/share/nodejs:{}", own.display()));
        command.args(place).arg(number.to_string()).arg(body);
        let output = command.stdin(Stdio::null()).output().expect("tests/run installs it");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        assert_eq!(text(&output.stderr), "", "{name}");
        (output.status.code().unwrap(), text(&output.stdout))
    }
}

macro_rules! on {
    ($name:ident, $server:ident, $pool:ident) => {
        async fn $name(name: &'static str, place: &[&str]) {
            let mut server = $server::start();
            let options = server.database().await;
            let socket = options.get_socket().unwrap();
            let example = Example::new(name, place, socket, options.get_database());
            let pool = $pool::new().connect_lazy_with(options);
            let body =
                async || -> String { sqlx::query_scalar("SELECT body FROM files").fetch_one(&pool).await.unwrap() };
            sql::migrate(&pool).await.unwrap();
            let table = "CREATE TABLE files (path VARCHAR(99) PRIMARY KEY, body VARCHAR(99))";
            pool.execute(table).await.unwrap();
            pool.execute("INSERT INTO files VALUES ('files/report', '')").await.unwrap();

            assert_eq!(example.write(33, "first"), (0, "written with token 33".into()));
            assert_eq!(example.write(34, "second"), (0, "written with token 34".into()));
            let (end, said) = example.write(33, "late");
            assert_eq!(end, 65, "{said}");
            let stale = "fencing: token 33 is stale, high water 34, resource files/report";
            assert!(said.starts_with("refused: ") && said.contains(stale), "{said}");
            assert_eq!(body().await, "second");

            let report = named("files/report");
            let mut held = sql::begin(&pool, &report, token(35)).await.unwrap();
            sqlx::query("UPDATE files SET body = 'third'").execute(&mut *held).await.unwrap();
            let (end, said) = example.write(36, "fourth");
            assert_eq!((end, said.matches("in the way: ").count()), (75, 3), "{said}");
            held.commit().await.unwrap();
            assert_eq!(body().await, "third");
            assert_eq!(example.write(36, "fourth"), (0, "written with token 36".into()));
            assert_eq!(body().await, "fourth");
            assert_eq!(sql::highest(&pool, &report).await.unwrap(), Some(token(36)));

            // The write fails, and the mark is raised for good.
            let mut row = pool.begin().await.unwrap();
            sqlx::query("UPDATE files SET body = 'held'").execute(&mut *row).await.unwrap();
            assert_eq!(example.write(37, "fifth").0, 75);
            row.rollback().await.unwrap();
            assert_eq!(sql::highest(&pool, &report).await.unwrap(), Some(token(37)));

            server.kill();
            let (end, said) = example.write(38, "gone");
            assert_eq!(end, 69, "{said}");
            assert!(said.starts_with("down: "), "{said}");
        }
    };
}

on!(on_postgres, PostgresServer, PgPoolOptions);
on!(on_mariadb, MariadbServer, MySqlPoolOptions);

#[tokio::test]
async fn psycopg() {
    on_postgres("with_psycopg.py", &["host=SOCKET dbname=DATABASE user=fencing"]).await;
}

#[tokio::test]
async fn tokio_postgres() {
    on_postgres("with_tokio_postgres", &["host=SOCKET dbname=DATABASE user=fencing"]).await;
}

#[tokio::test]
async fn node_pg() {
    on_postgres("with_pg.js", &["SOCKET", "DATABASE"]).await;
}

#[tokio::test]
async fn sqlalchemy() {
    let postgres = "postgresql://fencing@/DATABASE?host=SOCKET";
    on_postgres("with_sqlalchemy.py", &[postgres]).await;
    let mariadb = "mysql+pymysql://root@/DATABASE?unix_socket=SOCKET";
    on_mariadb("with_sqlalchemy.py", &[mariadb]).await;
}

#[tokio::test]
async fn pymysql() {
    on_mariadb("with_pymysql.py", &["SOCKET", "DATABASE"]).await;
}

/// `put_backup` writes 20 MiB, in parts, and the Python reader finds them; an older token changes nothing.
#[test]
fn a_backup_in_an_object_store() {
    support::objects::bucket("backups");
    let folder = tempfile::tempdir().unwrap();
    let put = |token: &str, contents: &[u8]| {
        let file = folder.path().join("app.dump");
        std::fs::write(&file, contents).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_put_backup"));
        command.arg(&file).arg("s3://backups/app/latest dump").envs(support::objects::environment());
        let output = command.env("FENCING_TOKEN", token).stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let read = || {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("read_object.py");
        let mut command = support::objects::python();
        command.arg(script).args(["backups", "app/latest dump"]).envs(support::objects::environment());
        let output = command.env("no_proxy", "*").stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stderr).unwrap(), output.stdout)
    };
    let backup: Vec<u8> = (0..20 << 20).map(|at: u32| (at >> 9) as u8).collect();
    assert_eq!(put("34", &backup), (Some(0), String::new()));
    assert!(read() == ("token 34\n".into(), backup.clone()));
    let (code, said) = put("33", b"late");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("token 33 of app/latest dump is stale, high water 34"), "{said}");
    assert!(read() == ("token 34\n".into(), backup));
}

/// The tables of codes that the examples repeat are the library's own.
#[test]
fn what_the_codes_mean() {
    use sql::statement::{mysql, postgres};
    for state in ["40001", "40P01", "55P03"] {
        assert!(postgres::is_retryable(state) && !postgres::is_down(state), "{state}");
    }
    for state in ["57P01", "57P03", "53300", "08006"] {
        assert!(postgres::is_down(state) && !postgres::is_retryable(state), "{state}");
    }
    for number in [1205, 1213, 1020, 1412, 3572, 3101] {
        assert!(mysql::is_retryable(number) && !mysql::is_down(number), "{number}");
    }
    for number in [1040, 1053, 1203, 1927, 2002, 2003, 2006, 2013, 3169, 4031] {
        assert!(mysql::is_down(number) && !mysql::is_retryable(number), "{number}");
    }
    for other in [postgres::STALE, "57014", "53100", "XX000", "P0001", "23505", "08", ""] {
        assert!(!postgres::is_retryable(other) && !postgres::is_down(other), "{other}");
    }
    for other in [1644, 1062] {
        assert!(!mysql::is_retryable(other) && !mysql::is_down(other), "{other}");
    }
}
