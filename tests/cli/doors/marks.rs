//! Where `fencing proxy` keeps its marks, they outlive it, and several proxies share them.

use std::process::Command;

use sqlx::ConnectOptions;
use support::cli::{Ended, finish, until};
use support::mariadb::MariadbServer;
use support::postgres::PostgresServer;
use support::redis::RedisServer;

use super::client::{get, put};
use super::upstream::Upstream;
use super::{Door, proxy};

fn fencing(arguments: &[&str]) -> Ended {
    let mut command = support::cli::fencing(&[]);
    command.env_remove("FENCING_REDIS").args(arguments);
    finish(command)
}

fn done(arguments: &[&str]) -> String {
    let ended = fencing(arguments);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    ended.stdout
}

fn before(upstream: &Upstream, marks: &str) -> Command {
    let mut command = proxy(&upstream.url());
    command.args(["--clean-start", "--marks", marks]);
    command
}

/// A newer token through one proxy keeps an older one out of the other, and of one that comes after both.
fn are_shared_and_stay(marks: &str) {
    let upstream = Upstream::start();
    let (one, two) = (Door::start(before(&upstream, marks)), Door::start(before(&upstream, marks)));
    assert_eq!(put(one.requests, "/files/a", 34, "new").status, 200);
    let refused = put(two.requests, "/files/a", 33, "old");
    assert_eq!(refused.status, 412, "{refused:?}");
    assert_eq!(refused.json()["highest"], 34);
    assert_eq!(put(two.requests, "/files/b", 1, "other").status, 200);
    drop((one, two));
    let next = Door::start(before(&upstream, marks));
    assert_eq!(put(next.requests, "/files/a", 33, "old").status, 412);
    assert_eq!(put(next.requests, "/files/a", 34, "again").status, 200);
    assert_eq!(get(next.status, "/readyz").status, 200);
    let stale = "begin PUT /files/a 33";
    assert!(!upstream.events().iter().any(|event| event == stale), "{:?}", upstream.events());
}

#[tokio::test]
async fn marks_in_postgresql_outlive_the_proxy() {
    let server = PostgresServer::start();
    let url = server.database().await.to_url_lossy().to_string();
    are_shared_and_stay(&url);
}

#[tokio::test]
async fn marks_in_mariadb_outlive_the_proxy() {
    let server = MariadbServer::start();
    let url = server.database().await.to_url_lossy().to_string();
    are_shared_and_stay(&url);
}

#[test]
fn marks_in_a_redis_outlive_the_proxy() {
    let server = RedisServer::start();
    let url = server.url();
    let refused = fencing(&["proxy", "--upstream", "http://127.0.0.1:9", "--marks", &url]);
    assert_eq!(refused.code, Some(65), "{}", refused.stderr);
    assert!(refused.stderr.contains("fencing marks open"), "{}", refused.stderr);
    let open = ["marks", "open", "--marks", &url];
    let looked = fencing(&open);
    assert_eq!(looked.code, Some(64));
    assert!(looked.stderr.contains("closed: never opened"), "{}", looked.stderr);
    assert_eq!(server.cli(&["DBSIZE"]), "0");
    assert_eq!(done(&[&open[..], &["--yes"]].concat()), "open, 0 marks, floor none\n");
    are_shared_and_stay(&url);
}

/// The proxy goes on, and lets nobody pass.
#[test]
fn marks_in_a_redis_that_forgets_are_closed_until_an_operator_opens_them() {
    let server = RedisServer::start();
    let url = server.url();
    let open = ["marks", "open", "--marks", &url, "--namespace", "files", "--yes"];
    done(&open);
    let upstream = Upstream::start();
    let mut command = before(&upstream, &url);
    command.args(["--namespace", "files"]);
    let door = Door::start(command);
    assert_eq!(put(door.requests, "/files/a", 34, "new").status, 200);
    server.cli(&["FLUSHALL"]);
    for token in [33, 34] {
        let refused = put(door.requests, "/files/a", token, "old");
        assert_eq!(refused.status, 503, "{refused:?}");
        assert_eq!(refused.json()["type"], "urn:fencing:unavailable");
    }
    assert_eq!(get(door.status, "/readyz").status, 503);
    let floor = [&open[..], &["--floor", "34"]].concat();
    assert_eq!(done(&floor), "open, 0 marks, floor 34\n");
    until("it is ready", || get(door.status, "/readyz").status == 200);
    assert_eq!(put(door.requests, "/files/a", 33, "old").status, 412);
    assert_eq!(put(door.requests, "/files/a", 34, "again").status, 200);
}
