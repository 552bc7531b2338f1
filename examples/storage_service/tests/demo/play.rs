use std::process::Stdio;

use sqlx::{ConnectOptions, Connection};

use super::service::storage_service;
use support::cli::{Ended, finish, five, urls};
use support::mariadb::MariadbServer;
use support::postgres::PostgresServer;

fn play(arguments: &[&str]) -> Ended {
    let mut command = storage_service();
    command.arg("--play").args(arguments).stderr(Stdio::piped());
    finish(command)
}

fn refused(ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    assert!(ended.stdout.contains("412: token "), "{}", ended.stdout);
    assert!(ended.stdout.contains("what client 2 wrote, token "), "{}", ended.stdout);
}

fn corrupted(ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    assert!(!ended.stdout.contains(" 412: "), "{}", ended.stdout);
    assert!(ended.stdout.contains("what client 1 wrote, token "), "{}", ended.stdout);
    assert!(ended.stdout.contains("CORRUPTED"), "{}", ended.stdout);
}

#[test]
fn embedded() {
    refused(&play(&[]));
    corrupted(&play(&["--unguarded"]));
    refused(&play(&["--lock", "database"]));
    corrupted(&play(&["--lock", "database", "--unguarded"]));
}

#[test]
fn without_leases_there_is_nothing_to_play() {
    let ended = play(&["--lock", "elsewhere"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(ended.stderr.contains("--play needs leases"), "{}", ended.stderr);
}

/// A table of another program, or no server at all: it says so at once.
#[tokio::test]
async fn what_cannot_work_is_said_at_the_start() {
    let server = PostgresServer::start();
    let options = server.database().await;
    let mut conn = sqlx::PgConnection::connect_with(&options).await.unwrap();
    sqlx::query("CREATE TABLE files (path TEXT PRIMARY KEY, body TEXT)")
        .execute(&mut conn)
        .await
        .unwrap();
    let ended = play(&["--database", options.to_url_lossy().as_str()]);
    assert_eq!(ended.code, Some(1), "{}", ended.stdout);
    assert!(
        ended.stderr.contains("the table files is not one of this service"),
        "{}",
        ended.stderr
    );
    let ended = play(&["--database", "postgres://127.0.0.1:1/files"]);
    assert!(ended.stderr.contains("cannot connect to the database"), "{}", ended.stderr);
}

#[tokio::test]
async fn on_five_redis_and_postgresql() {
    let (nodes, postgres) = (five(), PostgresServer::start());
    let url = postgres.database().await.to_url_lossy().to_string();
    let nodes = urls(&nodes);
    let real = ["--redis", &nodes, "--database", &url];
    refused(&play(&real));
    corrupted(&play(&[&real[..], &["--unguarded"]].concat()));
    refused(&play(&real));
    refused(&play(&["--lock", "database", "--database", &url]));
}

#[tokio::test]
async fn on_mariadb() {
    let server = MariadbServer::start();
    let url = server.database().await.to_url_lossy().to_string();
    refused(&play(&["--database", &url]));
    refused(&play(&["--lock", "database", "--database", &url]));
    corrupted(&play(&["--lock", "database", "--database", &url, "--unguarded"]));
}

#[test]
fn on_a_sqlite_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/files.db", folder.path().display());
    refused(&play(&["--database", &url]));
    refused(&play(&["--database", &url]));
}

#[test]
fn wrong_use_is_told() {
    let ended = play(&["--database", "oracle:x"]);
    assert_eq!(ended.code, Some(1));
}
