use sqlx::ConnectOptions;

use super::service::storage_service;
use support::cli::{Ended, finish, five, urls};
use support::mariadb::MariadbServer;
use support::postgres::PostgresServer;

fn play(arguments: &[&str]) -> Ended {
    let mut command = storage_service();
    command.arg("--play").args(arguments);
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
