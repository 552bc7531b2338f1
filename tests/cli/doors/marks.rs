//! Where `fencing proxy` keeps its marks, they outlive it, and several proxies share them.

use std::process::Command;

use sqlx::ConnectOptions;
use support::cli::until;
use support::mariadb::MariadbServer;
use support::postgres::PostgresServer;
use support::redis::RedisServer;

use super::client::{get, put};
use super::upstream::Upstream;
use super::{Door, proxy};
use crate::database::{done, fencing};

/// What `fencing marks open` has printed for `--seen`.
fn seen(open: &[&str]) -> String {
    let looked = fencing(open);
    assert_eq!(looked.code, Some(64), "{}", looked.stderr);
    let mut words = looked.stderr.split_whitespace().skip_while(|word| *word != "--seen");
    words.nth(1).unwrap_or_else(|| panic!("{}", looked.stderr)).to_owned()
}

/// Opens the marks as they stand now.
fn open_now(open: &[&str]) -> String {
    let seen = seen(open);
    done(&[open, &["--seen", &seen, "--yes"]].concat())
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
    fencing(&["proxy", "--upstream", "http://127.0.0.1:9", "--marks", &url])
        .says(65, "fencing marks open");
    let open = ["marks", "open", "--marks", &url];
    fencing(&open).says(64, "closed: never opened");
    assert_eq!(server.cli(&["DBSIZE"]), "0");
    assert_eq!(fencing(&[&open[..], &["--yes"]].concat()).code, Some(64));
    assert_eq!(fencing(&[&open[..], &["--yes", "--seen", "a/b"]].concat()).code, Some(64));
    assert_eq!(open_now(&open), "open, 0 marks, floor none\n");
    are_shared_and_stay(&url);
}

/// The proxy goes on, and lets nobody pass.
#[test]
fn marks_in_a_redis_that_forgets_are_closed_until_an_operator_opens_them() {
    let server = RedisServer::start();
    let url = server.url();
    let open = ["marks", "open", "--marks", &url, "--namespace", "files"];
    open_now(&open);
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
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("closed until an operator opens them"), "{detail}");
    }
    assert!(door.metric("fencing_admissions_total{layer=\"fence\",outcome=\"closed\"}") > 0.0);
    assert_eq!(get(door.status, "/readyz").status, 503);
    let floor = [&open[..], &["--floor", "34", "--above-marks"]].concat();
    assert_eq!(open_now(&floor), "open, 0 marks, floor 34\n");
    until("it is ready", || get(door.status, "/readyz").status == 200);
    assert_eq!(put(door.requests, "/files/a", 33, "old").status, 412);
    assert_eq!(put(door.requests, "/files/a", 34, "again").status, 200);
}

/// What is opened is what the operator has looked at.
#[test]
fn marks_that_changed_after_the_look_stay_closed() {
    let mut server = RedisServer::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let url = server.url();
    let open = ["marks", "open", "--marks", &url];
    let yes = |seen: &str| fencing(&[&open[..], &["--seen", seen, "--yes"]].concat());
    open_now(&open);
    server.cli(&["HSET", "{fencing}:marks", "m:files/a", "34"]);
    server.restart();
    let before = seen(&open);
    server.restart();
    assert_eq!(yes(&before).code, Some(65));
    let before = seen(&open);
    server.cli(&["HDEL", "{fencing}:marks", "m:files/a"]);
    assert_eq!(yes(&before).code, Some(65));
    let before = seen(&open);
    server.cli(&["FLUSHALL"]);
    let moved = yes(&before);
    assert_eq!(moved.code, Some(65), "{}", moved.stderr);
    assert!(moved.stderr.contains("changed since"), "{}", moved.stderr);
    assert_eq!(server.cli(&["DBSIZE"]), "0");
    assert_eq!(open_now(&open), "open, 0 marks, floor none\n");
}

/// A floor never falls: a typo would lock everybody out.
#[test]
fn a_floor_above_all_marks_must_be_meant() {
    let server = RedisServer::start();
    let url = server.url();
    let open = ["marks", "open", "--marks", &url];
    open_now(&open);
    server.cli(&["HSET", "{fencing}:marks", "m:files/a", "34"]);
    fencing(&[&open[..], &["--floor", "35"]].concat()).says(64, "the highest is 34");
    assert_eq!(open_now(&[&open[..], &["--floor", "34"]].concat()), "open, 1 marks, floor 34\n");
    let meant = [&open[..], &["--floor", "35", "--above-marks"]].concat();
    assert_eq!(open_now(&meant), "open, 1 marks, floor 35\n");
    server.cli(&["HSET", "{fencing}:marks", "floor", "1e3"]);
    fencing(&open).says(65, "the floor of the marks");
}

#[test]
fn a_namespace_is_for_a_redis() {
    for marks in [&["--marks", "sqlite::memory:"][..], &["--forget-marks-on-exit"]] {
        let proxy = ["proxy", "--upstream", "http://127.0.0.1:9", "--namespace", "files"];
        let refused = fencing(&[&proxy[..], marks].concat());
        assert_eq!(refused.code, Some(64), "{}", refused.stderr);
    }
}
