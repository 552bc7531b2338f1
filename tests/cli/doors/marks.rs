//! Where `fencing proxy` keeps its marks, they outlive it, and several proxies share them.

use support::cli::ask;

use super::*;
use crate::database::Database;

/// What `fencing db marks open` has printed for `--seen`.
fn seen(open: &str) -> String {
    let looked = ask("", open).says(64, " --seen ");
    let mut words = looked.stderr.split_whitespace().skip_while(|word| *word != "--seen");
    words.nth(1).unwrap().to_owned()
}

fn open_now(open: &str) -> String {
    let seen = seen(open);
    ask("", &format!("{open} --seen {seen} --yes")).printed()
}

fn before(upstream: &Upstream, marks: &str) -> Door {
    Door::start(proxy(&upstream.url(), &format!("--clean-start --marks {marks}")))
}

/// A newer token through one proxy keeps an older one out of the other, and of one that comes after both.
fn are_shared_and_stay(marks: &str) {
    println!("marks in {marks}");
    let upstream = Upstream::start();
    let (one, two) = (before(&upstream, marks), before(&upstream, marks));
    assert_eq!(one.put("/files/a", 34, "new").status, 200);
    assert_eq!(two.put("/files/a", 33, "old").is(412, "stale").json()["highest"], 34);
    assert_eq!(two.put("/files/b", 1, "other").status, 200);
    drop((one, two));
    let next = before(&upstream, marks);
    assert_eq!(next.put("/files/a", 33, "old").status, 412);
    assert_eq!(next.put("/files/a", 34, "again").status, 200);
    assert_eq!(next.page("/readyz").status, 200);
    let stale = "begin PUT /files/a 33";
    assert!(!upstream.events().iter().any(|event| event == stale), "{:?}", upstream.events());
}

#[tokio::test]
async fn marks_in_a_database_outlive_the_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = Database::sqlite(&folder, "marks.db");
    for database in [sqlite, Database::postgres().await, Database::mariadb().await] {
        are_shared_and_stay(&database.url);
    }
}

/// The fence does not hold there, whatever an earlier start has created.
#[tokio::test]
async fn marks_that_are_not_logged_are_refused_at_each_start() {
    let (upstream, database) = (Upstream::start(), Database::postgres().await);
    drop(before(&upstream, &database.url));
    (database.client)("ALTER TABLE fencing_marks SET UNLOGGED").unwrap();
    for _ in 0..2 {
        let line = format!("proxy --upstream {} --marks {}", upstream.url(), database.url);
        ask("", &line).says(65, "fencing_marks is not logged");
    }
}

#[test]
fn marks_in_a_redis_outlive_the_proxy() {
    let server = RedisServer::start();
    let open = &format!("db marks open --marks {}", server.url());
    ask("", &format!("proxy --upstream http://127.0.0.1:9 --marks {}", server.url())).says(65, "fencing db marks open");
    ask("", open).says(64, "closed: never opened");
    assert_eq!(server.cli(&["DBSIZE"]), "0");
    for wrong in ["--yes", "--yes --seen a/b"] {
        ask("", &format!("{open} {wrong}")).says(64, "");
    }
    assert_eq!(open_now(open), "open, 0 marks, floor none\n");
    are_shared_and_stay(&server.url());
}

#[test]
fn marks_in_a_redis_that_forgets_are_closed_until_an_operator_opens_them() {
    let server = RedisServer::start();
    let open = &format!("db marks open --namespace files --marks {}", server.url());
    open_now(open);
    let upstream = Upstream::start();
    let door = before(&upstream, &format!("{} --namespace files", server.url()));
    assert_eq!(door.put("/files/a", 34, "new").status, 200);
    server.cli(&["FLUSHALL"]);
    for token in [33, 34] {
        let refused = door.put("/files/a", token, "old").is(503, "unavailable");
        assert!(refused.text().contains("closed until an operator opens them"), "{refused:?}");
        assert_eq!(refused.header("retry-after"), None, "it takes an operator");
    }
    assert!(door.metric("fencing_admissions_total{layer=\"fence\",outcome=\"closed\"}") > 0.0);
    assert_eq!(door.page("/readyz").status, 503);
    assert_eq!(open_now(&format!("{open} --floor 34 --above-marks")), "open, 0 marks, floor 34\n");
    until("it is ready", || door.page("/readyz").status == 200);
    assert_eq!(door.put("/files/a", 33, "old").status, 412);
    assert_eq!(door.put("/files/a", 34, "again").status, 200);
}

#[test]
fn marks_that_changed_after_the_look_stay_closed() {
    let mut server = RedisServer::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let open = &format!("db marks open --marks {}", server.url());
    open_now(open);
    server.cli(&["HSET", "{fencing}:marks", "m:files/a", "34"]);
    server.restart();
    let before = seen(open);
    server.restart();
    ask("", &format!("{open} --seen {before} --yes")).says(65, "changed since");
    for change in [&["HDEL", "{fencing}:marks", "m:files/a"][..], &["FLUSHALL"]] {
        let before = seen(open);
        server.cli(change);
        ask("", &format!("{open} --seen {before} --yes")).says(65, "changed since");
    }
    assert_eq!(server.cli(&["DBSIZE"]), "0");
    assert_eq!(open_now(open), "open, 0 marks, floor none\n");
}

/// A floor never falls: a typo would lock everybody out.
#[test]
fn a_floor_above_all_marks_must_be_meant() {
    let server = RedisServer::start();
    let open = &format!("db marks open --marks {}", server.url());
    open_now(open);
    server.cli(&["HSET", "{fencing}:marks", "m:files/a", "34"]);
    ask("", &format!("{open} --floor 35")).says(64, "the highest is 34");
    assert_eq!(open_now(&format!("{open} --floor 34")), "open, 1 marks, floor 34\n");
    assert_eq!(open_now(&format!("{open} --floor 35 --above-marks")), "open, 1 marks, floor 35\n");
    server.cli(&["HSET", "{fencing}:marks", "floor", "1e3"]);
    ask("", open).says(65, "the floor of the marks");
}
