//! `fencing run --database`: the lock in one database, and no Redis.

use sqlx::ConnectOptions;
use support::cli::*;
use support::mariadb::MariadbServer;
use support::postgres::PostgresServer;

const PRINT: &str = "echo $FENCING_TOKEN";

fn in_order(url: &str) {
    // The first finds no tables.
    assert_eq!(finish(run(url, "", PRINT)).number(), 1);
    let holder = Job::start(url, "", "", "");
    finish(run(url, "--wait 0s", PRINT)).says(75, "invoice/42 is held by another");
    let waiting = run(url, "", PRINT).spawn().unwrap();
    holder.go().is(0);
    assert_eq!(end(waiting).number(), 3);
    let mut by_option = run("", &format!("--database {url}"), PRINT);
    by_option.env("DATABASE_URL", "postgres://127.0.0.1:1/not_read");
    assert_eq!(finish(by_option).number(), 4);
}

#[test]
fn on_a_sqlite_file() {
    let folder = tempfile::tempdir().unwrap();
    in_order(&format!("sqlite:{}/locks.db", folder.path().display()));
}

/// The lease is lost while the server hangs, and there is none while it is down.
fn until_it_hangs_or_dies(url: &str, signal: impl Fn(&str)) {
    let trap = "trap 'echo terminated; exit 0' TERM";
    let job = Job::start(url, "--ttl 8s", trap, "");
    signal("STOP");
    job.ended().prints(76, "terminated\n").says(76, "lease lost, invoice/42 token 5: ");
    signal("CONT");
    signal("KILL");
    finish(run(url, "--wait 0s", "true")).says(69, "invoice/42 was not acquired: ");
}

#[tokio::test]
async fn on_postgresql_until_it_hangs_or_dies() {
    let server = PostgresServer::start();
    let url = server.database().await.to_url_lossy().to_string();
    in_order(&url);
    until_it_hangs_or_dies(&url, |signal| server.signal(signal));
}

#[tokio::test]
async fn on_mariadb_until_it_hangs_or_dies() {
    let server = MariadbServer::start();
    let url = server.database().await.to_url_lossy().to_string();
    in_order(&url);
    until_it_hangs_or_dies(&url, |signal| server.signal(signal));
}
