//! `fencing leases` says who holds what, and `fencing release` takes a lock away.

use std::path::Path;
use std::process::{Child, Command};

use serde_json::Value;
use sqlx::{ConnectOptions, Executor};

use support::cli::{Ended, end, fencing, fencing_at, finish, five, line, run};
use support::postgres::PostgresServer;
use support::redis::{RedisServer, with_rights};

/// Holds `invoice/42` under this name until it is told to go on.
fn hold(mut command: Command, ready: &Path) -> Child {
    let child = command.env("FENCING_HOLDER", "from-environment").spawn().unwrap();
    line(ready);
    child
}

fn script(ready: &Path, go: &Path) -> String {
    format!("echo x > {}; while ! [ -e {} ]; do sleep 0.02; done", ready.display(), go.display())
}

fn ask(mut command: Command, arguments: &[&str]) -> Ended {
    command.args(arguments);
    finish(command)
}

fn objects(ended: &Ended) -> Vec<Value> {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The same on nodes and in databases, with what `command` makes.
fn listed_and_released(command: impl Fn() -> Command, of: Option<u64>) {
    let folder = tempfile::tempdir().unwrap();
    let (ready, go) = (folder.path().join("ready"), folder.path().join("go"));
    let mut holding = command();
    holding.args(["run", "--resource", "invoice/42", "--ttl", "10m", "--holder", "billing-7"]);
    holding.args(["--node-budget", "1s", "--", "sh", "-c", &script(&ready, &go)]);
    let holder = hold(holding, &ready);

    let found = objects(&ask(command(), &["leases", "--json"]));
    assert_eq!(found.len(), 1, "{found:?}");
    let lease = &found[0];
    assert_eq!((&lease["resource"], &lease["holder"]), (&"invoice/42".into(), &"billing-7".into()));
    assert!(lease["since"].as_str().unwrap().starts_with("20"), "{lease}");
    assert!(lease["remaining_ms"].as_u64().unwrap() > 300_000, "{lease}");
    assert_eq!((&lease["shared"], &lease["held"]), (&false.into(), &true.into()));
    assert_eq!(lease["of"].as_u64(), of);
    let token: u64 = lease["token"].as_str().unwrap().parse().unwrap();
    assert!(objects(&ask(command(), &["leases", "--json", "--resource", "order/*"])).is_empty());
    let table = ask(command(), &["leases", "--resource", "inv*/4?"]);
    let lines: Vec<&str> = table.stdout.lines().collect();
    assert!(
        lines[0].starts_with("RESOURCE") && lines[1].starts_with("invoice/42  billing-7  20"),
        "{table:?}"
    );

    ask(
        command(),
        &["run", "--resource", "invoice/42", "--wait", "0s", "--node-budget", "1s", "--", "true"],
    )
    .says(75, "is held by another client, billing-7 since 20");

    // It says what it would do, and what it cannot.
    let release = ["release", "--resource", "invoice/42"];
    let asked = ask(command(), &release);
    assert_eq!((asked.code, asked.stdout.as_str()), (Some(64), ""), "{asked:?}");
    assert!(
        asked.stderr.contains("would release invoice/42, held by billing-7 since 20"),
        "{asked:?}"
    );
    assert!(asked.stderr.contains("This does not stop the holder"), "{asked:?}");
    assert_eq!(objects(&ask(command(), &["leases", "--json"])).len(), 1);
    // It takes the lease that was seen, and no other.
    let forced = |token: u64| {
        let token = token.to_string();
        ask(command(), &[&release[..], &["--yes", "--token", &token]].concat())
    };
    assert!(asked.stderr.contains(&format!(", token {token}.")), "{asked:?}");
    let other = forced(token + 1);
    assert_eq!((other.code, other.stdout.as_str()), (Some(65), ""), "{other:?}");
    assert_eq!(objects(&ask(command(), &["leases", "--json"])).len(), 1);
    let done = forced(token);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.starts_with("released invoice/42, held by billing-7 since 20"), "{done:?}");
    assert!(done.stdout.contains("This does not stop the holder"), "{done:?}");

    let mut next = command();
    next.args(["run", "--resource", "invoice/42", "--", "sh", "-c", "echo $FENCING_TOKEN"]);
    let next = finish(next);
    assert_eq!(next.code, Some(0), "{}", next.stderr);
    assert!(next.stdout.trim().parse::<u64>().unwrap() > token, "{}", next.stdout);
    let nobody = forced(token);
    assert_eq!((nobody.code, nobody.stdout.as_str()), (Some(0), "nobody holds invoice/42\n"));
    std::fs::write(&go, "").unwrap();
    assert!(end(holder).stderr.contains("the lock was gone before it was released"));
}

#[test]
fn on_nodes() {
    let servers = five();
    listed_and_released(|| fencing(&servers), Some(5));
}

#[test]
fn in_a_sqlite_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/locks.db", folder.path().display());
    let command = || {
        let mut command = fencing_at("");
        command.env_remove("FENCING_REDIS").env("FENCING_DATABASE", &url);
        command
    };
    listed_and_released(command, None);
}

#[test]
fn with_the_rights_of_the_guide() {
    let servers = five();
    let urls = with_rights(&servers).join(",");
    listed_and_released(|| fencing_at(&urls), Some(5));
    // A lock that is shared, a key that is not a lock, and an eviction policy that was set since.
    let time = servers[0].cli(&["TIME"]);
    let ends = time.lines().next().unwrap().parse::<u64>().unwrap() * 1000 + 600_000;
    for server in &servers {
        for part in ["reader-1", "reader-2"] {
            server.cli(&["ZADD", LOCK, &ends.to_string(), part]);
        }
        server.cli(&["RPUSH", "{fencing}:lock:odd", "x"]);
        server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    }
    let found = objects(&ask(fencing_at(&urls), &["leases", "--json"]));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().filter(|lease| lease["shared"] == true).count() == 2, "{found:?}");
    let asked = ask(fencing_at(&urls), &["release", "--resource", "invoice/42"]);
    assert_eq!(asked.code, Some(64), "{asked:?}");
    let done = ask(fencing_at(&urls), &["release", "--resource", "invoice/42", "--yes"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(servers.iter().all(|it| it.cli(&["EXISTS", LOCK]) == "0"));
}

/// The holder may go on with what is left, and others may get what is free.
#[test]
fn a_release_on_few_nodes_says_so() {
    let servers = five();
    let urls = with_rights(&servers).join(",");
    assert_eq!(finish(run(&servers, &[], "true")).code, Some(0));
    put(&servers, "stuck");
    for server in &servers[2..] {
        server.cli(&["ACL", "SETUSER", "locks", "-del"]);
    }
    let done = ask(fencing_at(&urls), &["release", "--resource", "invoice/42", "--yes"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(69), ""), "{done:?}");
    assert!(
        done.stderr.contains("was released on 2 of 5 nodes, but only 2 of them will refuse"),
        "{done:?}"
    );
    assert_eq!(done.stderr.matches("perhaps released; it did not answer").count(), 3, "{done:?}");
    assert!(done.stderr.contains("This does not stop the holder"), "{done:?}");
}

#[test]
fn without_a_majority_nothing_is_released() {
    let mut servers = five();
    let folder = tempfile::tempdir().unwrap();
    let (ready, go) = (folder.path().join("ready"), folder.path().join("go"));
    let holder = hold(run(&servers, &["--ttl", "10m"], &script(&ready, &go)), &ready);
    servers.iter_mut().take(3).for_each(RedisServer::kill);
    let listed = ask(fencing(&servers), &["leases", "--json"]).says(69, "2 of 5 nodes answered");
    assert!(!listed.stdout.contains("\"held\":true"), "{listed:?}");
    assert!(listed.stdout.contains("from-environment"), "{listed:?}");
    let released =
        ask(fencing(&servers), &["release", "--resource", "invoice/42", "--yes", "--token", "1"]);
    assert_eq!(released.code, Some(69), "{released:?}");
    std::fs::write(&go, "").unwrap();
    end(holder);
}

#[test]
fn a_name_that_cannot_be_is_wrong_usage() {
    let mut command = fencing_at("unix:///nowhere");
    command.env("FENCING_HOLDER", "two words").args(["run", "--resource", "r", "--", "true"]);
    finish(command).says(64, "FENCING_HOLDER: \"two words\" is not a valid holder name");
}

#[test]
fn the_log_says_what_it_is_asked_for() {
    let servers = five();
    let logged = |level: Option<&str>| {
        let mut command = run(&servers, &[], "true");
        if let Some(level) = level {
            command.env("RUST_LOG", level);
        }
        finish(command)
    };
    assert_eq!(logged(None).stderr, "");
    let debug = logged(Some("fencing=debug"));
    assert!(debug.stderr.contains("lease acquired"), "{}", debug.stderr);
    assert_eq!(logged(Some("fencing=error")).stderr, "");
    let wrong = logged(Some("fencing=loud"));
    assert_eq!(wrong.code, Some(0), "{wrong:?}");
    assert!(wrong.stderr.contains("RUST_LOG is not followed"), "{}", wrong.stderr);
}

const LOCK: &str = "{fencing}:lock:invoice/42";

/// Puts the lock of somebody on these servers, as an attempt does that has got so far.
fn put(servers: &[RedisServer], value: &str) {
    for server in servers {
        server.cli(&["SET", LOCK, value, "PX", "600000"]);
    }
}

/// What stands on less than a majority is an attempt, or what is left of a lease.
#[test]
fn a_lock_on_few_nodes_is_taken_only_where_nobody_has_most() {
    let servers = five();
    assert_eq!(finish(run(&servers, &[], "true")).code, Some(0));
    let release = ["release", "--resource", "invoice/42"];
    put(&servers[..3], "majority");
    put(&servers[3..], "minority");
    let lease = &objects(&ask(fencing(&servers), &["leases", "--json"]))[..];
    assert_eq!(lease.iter().filter(|lease| lease["held"] == true).count(), 1, "{lease:?}");
    let token = lease.iter().find(|lease| lease["held"] == true).unwrap()["token"].clone();
    let token = token.as_str().unwrap();
    let done = ask(fencing(&servers), &[&release[..], &["--token", token, "--yes"]].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("on 3 of 5 nodes"), "{done:?}");
    let left: Vec<_> = servers.iter().map(|it| it.cli(&["GET", LOCK])).collect();
    assert_eq!(left, ["", "", "", "minority", "minority"]);

    // It has no token: whoever comes next may get the same.
    let asked =
        ask(fencing(&servers), &release).says(64, "on 2 of 5 nodes: an attempt, or what is left");
    assert!(!asked.stderr.contains(", token "), "{asked:?}");
    let token = servers[3].cli(&["HGET", "{fencing}:memory", "era"]) + "000001";
    for token in [token.as_str(), "1"] {
        let refused =
            ask(fencing(&servers), &[&release[..], &["--token", token, "--yes"]].concat());
        assert_eq!(refused.code, Some(65), "{refused:?}");
    }
    let done = ask(fencing(&servers), &[&release[..], &["--yes"]].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("on 2 of 5 nodes"), "{done:?}");
    assert!(servers.iter().all(|it| it.cli(&["EXISTS", LOCK]) == "0"));
}

/// Nodes that do not answer may have the rest of a lease: it is not called the rest of an attempt.
#[test]
fn what_silent_nodes_may_have_may_well_be_held() {
    let mut servers = five();
    assert_eq!(finish(run(&servers, &[], "true")).code, Some(0));
    put(&servers[..1], "left-over");
    put(&servers[2..], "holder");
    servers.iter_mut().skip(3).for_each(RedisServer::kill);
    let release = ["release", "--resource", "invoice/42"];
    let asked = ask(fencing(&servers), &release);
    assert_eq!(asked.code, Some(64), "{asked:?}");
    let perhaps = "(seen on 1 of 3 nodes that remember, of 5)";
    assert_eq!(asked.stderr.matches(perhaps).count(), 2, "{asked:?}");
    let token = servers[2].cli(&["HGET", "{fencing}:memory", "era"]) + "000001";
    let named = ask(fencing(&servers), &[&release[..], &["--token", &token, "--yes"]].concat());
    assert_eq!((named.code, named.stdout.as_str()), (Some(69), ""), "{named:?}");
    assert!(named.stderr.contains("Run it again when more nodes do"), "{named:?}");
    assert_eq!(servers[2].cli(&["GET", LOCK]), "holder");
}

/// Nodes that have forgotten a lease may have been its majority.
#[test]
fn what_quarantined_nodes_have_forgotten_may_be_held() {
    let mut servers = five();
    let folder = tempfile::tempdir().unwrap();
    let (ready, go) = (folder.path().join("ready"), folder.path().join("go"));
    let holder = hold(run(&servers, &["--ttl", "10m"], &script(&ready, &go)), &ready);
    for server in servers.iter_mut().take(3) {
        server.kill();
        server.restart();
    }
    let mut admit = fencing(&servers);
    admit.args(["fleet", "admit", "--ttl", "10m"]);
    assert_eq!(finish(admit).code, Some(0));
    let found = objects(&ask(fencing(&servers), &["leases", "--json"]));
    assert_eq!((found.len(), &found[0]["held"]), (1, &Value::Null), "{found:?}");
    assert_eq!((&found[0]["answered"], &found[0]["remember"]), (&5.into(), &2.into()), "{found:?}");
    let table = ask(fencing(&servers), &["leases"]);
    assert!(table.stdout.contains("2 of 2 that remember, of 5: perhaps held"), "{table:?}");
    let forgotten = "2 of 5 nodes remember: a lock that the others have forgotten may be held";
    assert!(table.stderr.contains(forgotten), "{table:?}");
    ask(fencing(&servers), &["release", "--resource", "invoice/43"])
        .says(69, "2 of 5 nodes remember");
    ask(fencing(&servers), &["release", "--resource", "invoice/42"])
        .says(64, "(seen on 2 of 2 nodes that remember, of 5)");
    std::fs::write(&go, "").unwrap();
    end(holder);
}

/// A node of another list is in no majority of this one, and stays as it is.
#[test]
fn nodes_of_another_list_do_not_count() {
    let servers = five();
    assert_eq!(finish(run(&servers, &[], "true")).code, Some(0));
    put(&servers, "stuck");
    let release = |servers: &[RedisServer]| {
        let asked = ask(fencing(servers), &["release", "--resource", "invoice/42"]);
        let Some(token) = asked.stderr.split(", token ").nth(1) else { return asked };
        let token = token.split('.').next().unwrap();
        ask(fencing(servers), &["release", "--resource", "invoice/42", "--token", token, "--yes"])
    };
    let wrong = release(&servers[..3]).says(69, "0 of 3 nodes answered as nodes of this list");
    assert!(wrong.stderr.contains("a node of another fleet"), "{wrong:?}");
    assert!(wrong.stderr.contains("is it the list that the clients have?"), "{wrong:?}");
    // One node has gone over to another list.
    let admitted = servers[0].cli(&["HGET", "{fencing}:memory", "admitted"]);
    servers[0].cli(&["HSET", "{fencing}:memory", "admitted", &format!("{admitted},x")]);
    let done = release(&servers);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.stdout.contains("on 4 of 5 nodes; 4 of 5 will refuse the holder's renewal"),
        "{done:?}"
    );
    assert_eq!(servers[0].cli(&["GET", LOCK]), "stuck");
}

/// Whoever releases is written down by host and process where the environment's name cannot be.
#[test]
fn a_wrong_name_does_not_stop_the_operator() {
    let servers = five();
    assert_eq!(finish(run(&servers, &[], "true")).code, Some(0));
    put(&servers, "stuck");
    let asked = ask(fencing(&servers), &["release", "--resource", "invoice/42"]);
    let token = asked.stderr.split(", token ").nth(1).unwrap().split('.').next().unwrap();
    let mut command = fencing(&servers);
    command.env("FENCING_HOLDER", "two words");
    let done = ask(command, &["release", "--resource", "invoice/42", "--token", token, "--yes"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let line = servers[0].cli(&["ZRANGE", "{fencing}:audit", "0", "-1"]);
    assert!(line.contains("held by stuck; done by ") && !line.contains("two words"), "{line}");
}

/// Whoever ran it must look again: nothing says whether it was done.
#[tokio::test]
async fn a_database_that_breaks_off_has_perhaps_released() {
    let server = PostgresServer::start();
    let options = server.database().await;
    let command = |arguments: &[&str]| {
        let mut command = fencing_at("");
        command
            .env_remove("FENCING_REDIS")
            .env("FENCING_DATABASE", options.to_url_lossy().as_str());
        command.args(arguments);
        command
    };
    let folder = tempfile::tempdir().unwrap();
    let (ready, go) = (folder.path().join("ready"), folder.path().join("go"));
    let mut holding = command(&["run", "--resource", "invoice/42", "--ttl", "10m"]);
    holding.args(["--", "sh", "-c", &script(&ready, &go)]);
    let holder = hold(holding, &ready);
    let mut session = options.connect().await.unwrap();
    session.execute("BEGIN; SELECT FROM fencing_leases FOR UPDATE").await.unwrap();
    let release = command(&["release", "--resource", "invoice/42", "--yes"]).spawn().unwrap();
    let end_it = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    // In another transaction: within one the view stays what it was.
    let mut other = options.connect().await.unwrap();
    while sqlx::query_scalar::<_, i64>(end_it).fetch_one(&mut other).await.unwrap() == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let ended = end(release);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(69), ""), "{ended:?}");
    assert!(ended.stderr.contains("invoice/42 was perhaps released"), "{ended:?}");
    assert!(ended.stderr.contains("run this again without --yes"), "{ended:?}");
    session.execute("ROLLBACK").await.unwrap();
    std::fs::write(&go, "").unwrap();
    assert_eq!(end(holder).code, Some(0));
}
