//! A database that hangs, is lost, or guards nothing; the lock in one database, and no Redis, until then; and TLS to a
//! database whose certificate nobody but itself has signed.

use std::process::Command;

use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Executor as _};
use support::cli::*;
use support::clients::{certify, output};
use support::mariadb::MariadbServer;
use support::postgres::PostgresServer;

use crate::database::{Database, postgres};

#[tokio::test]
async fn a_database_that_stops_to_answer_holds_nobody_up_for_ever() {
    let options = postgres().database().await;
    let url = options.to_url_lossy().to_string();
    ask(&url, "db migrate").is(0);
    let mut conn = options.connect().await.unwrap();
    let lock = "BEGIN; LOCK TABLE fencing_marks, _fencing_migrations";
    conn.execute(lock).await.unwrap();
    let lines = [
        "db migrate",
        "db marks",
        "db marks --resource a",
        "db marks raise --resource a --token 1",
        "db marks prune --older-than 0s --floor 1 --yes",
    ];
    let asked = lines.map(|line| fencing(&url, line).spawn().unwrap());
    let proxy = format!("proxy --upstream http://127.0.0.1:9 --listen 127.0.0.1:0 --status 127.0.0.1:0 --marks {url}");
    for asked in asked.into_iter().chain([fencing("", &proxy).spawn().unwrap()]) {
        end(asked).says(69, "the server timed out");
    }
}

/// An operator of the server ends the session, in which the command waits.
#[tokio::test]
async fn a_database_that_is_lost_is_unavailable() {
    let database = Database::postgres().await;
    database.ask("db migrate").is(0);
    let mut conn = database.url.parse::<PgConnectOptions>().unwrap().connect().await.unwrap();
    conn.execute("BEGIN; LOCK TABLE fencing_marks").await.unwrap();
    let asked = fencing(&database.url, "db marks").spawn().unwrap();
    let end_it = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    until("the session is ended", || database.run(end_it).unwrap().contains('t'));
    end(asked).says(69, "terminating connection");

    let database = Database::mariadb().await;
    database.ask("db migrate").is(0);
    let mut conn = database.url.parse::<MySqlConnectOptions>().unwrap().connect().await.unwrap();
    conn.execute("LOCK TABLES fencing_marks_base WRITE, fencing_marks WRITE").await.unwrap();
    let asked = fencing(&database.url, "db marks").spawn().unwrap();
    let waits = "SELECT id FROM information_schema.processlist \
        WHERE db = DATABASE() AND state LIKE 'Waiting for table%'";
    until("the session is ended", || {
        let id: Option<u64> = database.run(waits).unwrap().lines().last().and_then(|id| id.parse().ok());
        id.is_some_and(|id| database.run(&format!("KILL {id}")).is_ok())
    });
    end(asked).says(69, "");
}

/// [`PATIENT`], and a long wait, which must end at once.
const WAITS_LONG: &str = "--wait 10m --ttl 2m --node-budget 60s";

/// Locks that would exclude nobody, rights that a role lacks, and marks that are lost.
#[tokio::test]
async fn what_no_wait_mends_is_refused_at_once() {
    let database = Database::postgres().await;
    let created = include_str!("../../migrations/postgres/0001_fencing_marks.sql");
    database.run(&created.replace("CREATE TABLE", "CREATE UNLOGGED TABLE")).unwrap();
    finish(run(&database.url, "", "echo never")).prints(65, "").says(65, "fencing_marks is not logged");

    let database = Database::postgres().await;
    database.ask("db migrate").is(0);
    database.run("CREATE ROLE without_rights").unwrap();
    let url = database.as_role("without_rights");
    finish(run(&url, WAITS_LONG, "echo never")).prints(65, "").says(65, "permission denied");
    ask(&url, "leases").says(65, "not permitted: ");
    let unknown = database.url.parse::<PgConnectOptions>().unwrap().username("nobody_at_all");
    ask(unknown.to_url_lossy().as_str(), "db marks").says(65, "the database server refused the connection");
    database.run("DROP TABLE fencing_marks CASCADE").unwrap();
    let words = "the database has lost the table fencing_marks";
    finish(run(&database.url, WAITS_LONG, "echo never")).prints(65, "").says(65, words);
}

const PRINT: &str = "echo $FENCING_TOKEN";

fn in_order(url: &str) {
    // The first finds no tables.
    assert_eq!(finish(run(url, PATIENT, PRINT)).number(), 1);
    let holder = Job::start(url, PATIENT, "", "");
    finish(run(url, &format!("{PATIENT} --wait 0s"), PRINT)).says(75, "invoice/42 is held by another");
    let waiting = run(url, PATIENT, PRINT).spawn().unwrap();
    holder.go().is(0);
    assert_eq!(end(waiting).number(), 3);
    let mut by_option = run("", &format!("--database {url} {PATIENT}"), PRINT);
    by_option.env("DATABASE_URL", "postgres://127.0.0.1:1/not_read");
    assert_eq!(finish(by_option).number(), 4);
}

/// The lease is lost while the server hangs, and there is none while it is down.
fn until_it_hangs_or_dies(url: &str, signal: impl Fn(&str)) {
    let trap = "trap 'echo terminated; exit 0' TERM";
    let job = Job::start(url, "--ttl 20s --node-budget 10s", trap, "");
    signal("STOP");
    job.ended().prints(76, "terminated\n").says(76, "lease lost, invoice/42 token 5: ");
    signal("CONT");
    signal("KILL");
    finish(run(url, "--wait 0s", "true")).says(69, "invoice/42 was not acquired: ");
}

#[tokio::test]
async fn a_lease_on_postgresql_until_it_hangs_or_dies() {
    let server = PostgresServer::start();
    let url = server.database().await.to_url_lossy().to_string();
    in_order(&url);
    until_it_hangs_or_dies(&url, |signal| server.signal(signal));
}

#[tokio::test]
async fn a_lease_on_mariadb_until_it_hangs_or_dies() {
    let server = MariadbServer::start();
    let url = server.database().await.to_url_lossy().to_string();
    in_order(&url);
    until_it_hangs_or_dies(&url, |signal| server.signal(signal));
}

/// An address of this machine that no other test has.
fn address() -> String {
    let process = std::process::id();
    format!("127.{}.{}.{}", 101 + (process >> 16) % 100, process >> 8 & 255, process & 255)
}

#[tokio::test]
async fn postgresql_is_reached_over_tls() {
    let (address, folder) = (address(), tempfile::tempdir().unwrap());
    certify(folder.path(), &format!("IP:{address}"));
    let server = PostgresServer::with(&[&format!("listen_addresses={address}")]);
    let database = server.database().await;
    let name = database.get_database().unwrap().to_owned();
    let psql = |statement: &str| output(server.client(&name).arg("-c").arg(statement)).unwrap();
    // The server reads nothing but files of its own.
    for file in ["key", "certificate"] {
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        let write = format!("umask 077; cat >{file}");
        psql(&format!("COPY (SELECT unnest(string_to_array($${text}$$, E'\\n'))) TO PROGRAM '{write}'"));
        psql(&format!("ALTER SYSTEM SET ssl_{}_file = '{file}'", &file[..file.len().min(4)]));
    }
    psql("ALTER SYSTEM SET ssl = on");
    psql("SELECT pg_reload_conf()");

    let url = |mode: &str| format!("postgres://fencing@{address}/{name}?sslmode={mode}");
    ask(&url("require"), "db migrate").is(0);
    let known = format!("verify-full&sslrootcert={}/certificate", folder.path().display());
    ask(&url(&known), "db marks").is(0);
    ask(&url("verify-full"), "db marks").says(69, "certificate");
}

#[test]
fn mariadb_is_reached_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path(), "IP:127.0.0.1");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let open = Command::new("chmod").args(["-R", "a+rX", &file("")]).status().unwrap();
    assert!(open.success());
    let (key, certificate) = (file("key"), file("certificate"));
    let settings = [format!("ssl-key={key}"), format!("ssl-cert={certificate}")];
    let server = MariadbServer::with(&[&settings[0], &settings[1]]);
    let create = "CREATE DATABASE tls; SELECT @@socket";
    let socket = output(server.client("").arg("-e").arg(create)).unwrap();
    let url = format!("mysql://root@localhost/tls?socket={}&ssl-mode=REQUIRED", socket.trim());
    ask(&url, "db migrate").is(0);
}
