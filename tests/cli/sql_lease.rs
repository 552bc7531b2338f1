//! `fencing run --database`: the lock in one database, and no Redis.

use std::process::Command;

use sqlx::ConnectOptions;

use support::cli::{Ended, end, fencing_at, finish, line};
use support::mariadb::MariadbServer;
use support::postgres::PostgresServer;

/// `fencing run` of a shell script, with these options and without the caller's nodes.
fn run(options: &[&str], script: &str) -> Command {
    let mut command = fencing_at("");
    command.env_remove("FENCING_REDIS").env_remove("FENCING_DATABASE");
    command.env("DATABASE_URL", "postgres://127.0.0.1:1/not_read");
    command.args(["run", "--resource", "invoice/42"]).args(options);
    command.args(["--", "sh", "-c", script]);
    command
}

fn token(ended: &Ended) -> u64 {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr, "");
    ended.stdout.trim().parse().unwrap()
}

fn in_order(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (ready, go) = (folder.path().join("ready"), folder.path().join("go"));
    let print = "echo $FENCING_TOKEN";
    // The first finds no tables.
    assert_eq!(token(&finish(run(&["--database", url], print))), 1);
    let script = format!(
        "echo x > {}; while ! [ -e {} ]; do sleep 0.02; done",
        ready.display(),
        go.display()
    );
    let holder = run(&["--database", url], &script).spawn().unwrap();
    line(&ready);
    finish(run(&["--database", url, "--wait", "0s"], print))
        .says(75, "invoice/42 is held by another");
    let waiting = run(&["--database", url], print).spawn().unwrap();
    std::fs::write(&go, "").unwrap();
    assert_eq!(end(holder).code, Some(0));
    assert_eq!(token(&end(waiting)), 3);
    let mut by_environment = run(&[], print);
    by_environment.env("FENCING_DATABASE", url);
    assert_eq!(token(&finish(by_environment)), 4);
}

#[test]
fn on_a_sqlite_file() {
    let folder = tempfile::tempdir().unwrap();
    in_order(&format!("sqlite:{}/locks.db", folder.path().display()));
}

/// The lease is lost while the server hangs, and there is none while it is down.
fn until_it_hangs_or_dies(url: &str, signal: impl Fn(&str)) {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let script = format!(
        "trap 'echo terminated; exit 0' TERM; echo x > {}; while :; do sleep 0.05; done",
        ready.display()
    );
    let child = run(&["--database", url, "--ttl", "8s"], &script).spawn().unwrap();
    line(&ready);
    signal("STOP");
    let ended = end(child);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(76), "terminated\n"));
    assert!(ended.stderr.contains("lease lost, invoice/42 token 5: "), "{}", ended.stderr);
    signal("CONT");

    signal("KILL");
    finish(run(&["--database", url, "--wait", "0s"], "true"))
        .says(69, "invoice/42 was not acquired: ");
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

#[test]
fn wrong_use_is_told_and_passwords_are_not() {
    let secret = "postgres://me:s3cret@127.0.0.1:1/d";
    let hidden = "mysql://me:s3cret@127.0.0.1:1/d";
    for (options, code, words) in [
        (vec![], 64, "FENCING_DATABASE"),
        (vec!["--database", "sqlite:/x", "--redis", "redis://h"], 64, "cannot be used with"),
        (vec!["--database", "sqlite::memory:"], 64, "keeps no other process out"),
        (vec!["--redis", "memory:"], 64, "is not a redis://"),
        (vec!["--redis", "redis://me:s3cret@a,b"], 64, "b is not a redis://"),
        (vec!["--database", "sqlite:"], 64, "keeps no other process out"),
        (vec!["--database", "oracle:x"], 64, "begins with sqlite:, postgres: or mysql:"),
        (vec!["--database", secret, "--ttl", "1s", "--wait", "0s"], 69, "postgres://127.0.0.1:1/d"),
        (vec!["--database", secret, secret], 64, "***"),
        (vec!["--database", hidden, "--ttl", "1s", "--wait", "0s"], 69, "mysql://127.0.0.1:1/d"),
        (vec!["--database", "mysql://me:s3cret@h:port/d"], 64, "--database"),
        (vec!["--database", "postgres://me:s3cret@h:port/d"], 64, "--database"),
        (
            vec!["--database", "sqlite:/no/such/folder/x.db"],
            64,
            "the folder /no/such/folder does not exist",
        ),
        (vec!["--database", "sqlite:x.db", "--namespace", "ns"], 64, "--namespace is for nodes"),
        (
            vec!["--database", "postgres://u@127.0.0.1:1/d", "--wait", "1ms"],
            69,
            "Connection refused",
        ),
    ] {
        let ended = finish(run(&options, "true")).says(code, words);
        assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
    }
    let mut both = run(&[], "true");
    both.env("FENCING_DATABASE", secret).env("FENCING_REDIS", "redis://h");
    let ended = finish(both).says(64, "both FENCING_REDIS and FENCING_DATABASE");
    assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
}
