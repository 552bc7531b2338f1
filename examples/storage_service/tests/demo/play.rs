use std::process::Stdio;

use sqlx::{ConnectOptions, Connection};

use super::service::storage_service;
use support::cli::{Ended, finish};
use support::postgres::PostgresServer;

fn play(arguments: &[&str]) -> Ended {
    let mut command = storage_service();
    command.arg("--play").args(arguments).stderr(Stdio::piped());
    if arguments.contains(&"--files") {
        command.envs(support::objects::environment());
    }
    finish(command)
}

/// Plays it with the fence, which refuses the stale write.
pub fn refused(arguments: &[&str]) {
    let Ended { code, stdout, .. } = play(arguments);
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.contains("412: token "), "{stdout}");
    assert!(stdout.contains("what client 2 wrote, token "), "{stdout}");
}

pub fn corrupted(arguments: &[&str]) {
    let Ended { code, stdout, .. } = play(&[arguments, &["--unguarded"]].concat());
    assert_eq!(code, Some(0), "{stdout}");
    assert!(!stdout.contains(" 412: "), "{stdout}");
    assert!(stdout.contains("what client 1 wrote, token "), "{stdout}");
    assert!(stdout.contains("CORRUPTED"), "{stdout}");
}

#[test]
fn embedded() {
    for place in [&[] as &[&str], &["--lock", "database"]] {
        refused(place);
        corrupted(place);
    }
}

#[test]
fn wrong_use_is_told() {
    for (arguments, words) in [
        (["--lock", "elsewhere"], "--play needs leases"),
        (["--database", "oracle:x"], "--database: the URL must begin with"),
        (["--database", "postgres://127.0.0.1:1/files"], "cannot connect to the database"),
        (["--files", "s3://no-such-bucket"], "--files: "),
        (["--files", "s3://no-such-bucket"], "NoSuchBucket"),
    ] {
        play(&arguments).says(1, words);
    }
}

#[tokio::test]
async fn what_cannot_work_is_said_at_the_start() {
    let server = PostgresServer::start();
    let options = server.database().await;
    let mut conn = sqlx::PgConnection::connect_with(&options).await.unwrap();
    let table = "CREATE TABLE files (path TEXT PRIMARY KEY, body TEXT)";
    sqlx::query(table).execute(&mut conn).await.unwrap();
    let ended = play(&["--database", options.to_url_lossy().as_str()]);
    ended.says(1, "the table files is not one of this service");
}
