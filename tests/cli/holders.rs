//! `fencing leases` says who holds what, and `fencing release` takes a lock away: the same program and the same
//! commands over every lock service, by the URL alone.

use serde_json::Value;
use sqlx::{ConnectOptions, Executor};
use support::cli::*;
use support::etcd::EtcdCluster;
use support::redis::with_rights;
use support::zookeeper::ZookeeperServer;

use crate::database::{self, Database};

const LOCK: &str = "{fencing}:lock:invoice/42";

/// Holds `invoice/42` under a name of the environment.
fn hold(place: &(impl Place + ?Sized), options: &str) -> Job {
    let command = |script: &str| {
        // As long as a session of ZooKeeper may be.
        let ttl = if place.place().starts_with("zookeeper:") { "30s" } else { "10m" };
        let mut command = run(place, &format!("--ttl {ttl} {options}"), script);
        command.env("FENCING_HOLDER", "from-environment");
        command
    };
    Job::of(command, "", "")
}

/// What [`PATIENT`] says, for any place: budgets are a part of the TTL.
fn patient(place: &(impl Place + ?Sized)) -> &'static str {
    if place.place().starts_with("zookeeper:") { "--ttl 30s --node-budget 7s" } else { PATIENT }
}

fn leases(place: &(impl Place + ?Sized), options: &str) -> Vec<Value> {
    let listed = ask(place, &format!("leases --node-budget 5s --json {options}"));
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    listed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn release(place: &(impl Place + ?Sized), options: &str) -> Ended {
    ask(place, &format!("release --node-budget 5s --resource invoice/42 {options}"))
}

/// The token that a release without `--yes` has named.
fn named(asked: &Ended) -> &str {
    let rest = asked.stderr.split(", token ").nth(1);
    rest.and_then(|rest| rest.split('.').next()).unwrap_or_else(|| panic!("{asked:?}"))
}

/// Five servers that granted a lease once. Some have a lock now, as an attempt leaves it that ended halfway.
fn with_locks(locks: [Option<&str>; 5]) -> Vec<RedisServer> {
    let servers = five();
    finish(run(&servers, "--node-budget 2s", "true")).is(0);
    for (server, holder) in servers.iter().zip(locks) {
        holder.map(|holder| server.cli(&["SET", LOCK, holder, "PX", "600000"]));
        // A majority has granted; a late node may not have counted.
        server.cli(&["HSET", "{fencing}:memory", "c:invoice/42", "1"]);
    }
    servers
}

fn locks(servers: &[RedisServer]) -> Vec<String> {
    servers.iter().map(|server| server.cli(&["GET", LOCK])).collect()
}

/// The same in every lock service. Returns the holder, whose lease is ended.
fn listed_and_released(place: &(impl Place + ?Sized), of: Option<u64>) -> Job {
    let holder = hold(place, "--holder billing-7");
    let found = leases(place, "");
    assert_eq!(found.len(), 1, "{found:?}");
    let lease = &found[0];
    assert_eq!((&lease["resource"], &lease["holder"]), (&"invoice/42".into(), &"billing-7".into()));
    assert!(lease["since"].as_str().unwrap().starts_with("20"), "{lease}");
    // ZooKeeper does not say when a session ends.
    let is_long = |left| left > 300_000;
    assert!(lease["remaining_ms"].as_u64().map_or(of.is_none(), is_long), "{lease}");
    assert_eq!((&lease["shared"], &lease["held"]), (&false.into(), &true.into()));
    assert_eq!(lease["of"].as_u64(), of);
    assert_eq!(lease["token"], holder.token.to_string());
    assert!(leases(place, "--resource order/*").is_empty());
    let table = ask(place, "leases --node-budget 5s --resource inv*/4?");
    let mut lines = table.stdout.lines();
    assert!(lines.next().unwrap().starts_with("RESOURCE"), "{table:?}");
    assert!(lines.next().unwrap().starts_with("invoice/42  billing-7  20"), "{table:?}");

    let at_once = format!("{} --wait 0s", patient(place));
    finish(run(place, &at_once, "true")).says(75, "is held by another client, billing-7 since 20");

    // It says what it would do, and what it cannot.
    let asked = release(place, "").prints(64, "");
    for words in [
        "would release invoice/42, held by billing-7 since 20",
        "This does not stop the holder",
        &format!(", token {}.", holder.token),
    ] {
        assert!(asked.stderr.contains(words), "{words}: {asked:?}");
    }
    // It takes the lease that was seen, and no other.
    let forced = |token: u64| release(place, &format!("--yes --token {token}"));
    forced(holder.token + 1).prints(65, "");
    assert_eq!(leases(place, "").len(), 1);
    let done = forced(holder.token);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.starts_with("released invoice/42, held by billing-7 since 20"), "{done:?}");
    assert!(done.stdout.contains("This does not stop the holder"), "{done:?}");

    let next = finish(run(place, patient(place), "echo $FENCING_TOKEN")).number();
    assert!(next > holder.token, "{next}");
    forced(holder.token).prints(0, "nobody holds invoice/42\n");
    holder
}

#[test]
fn on_nodes_and_in_a_sqlite_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite:{}/locks.db", folder.path().display());
    // A holder hears of it with its next renewal.
    for holder in [listed_and_released(&five(), Some(5)), listed_and_released(&file, None)] {
        assert!(holder.go().stderr.contains("the lock was gone before it was released"));
    }
}

/// And tokens are raised.
#[test]
fn in_etcd() {
    let cluster = EtcdCluster::start();
    let holder = listed_and_released(&cluster.url(), None);
    assert!(holder.go().stderr.contains("the lock was gone before it was released"));
    is_raised(&cluster.url());
}

/// And tokens are raised.
#[test]
fn in_zookeeper() {
    let server = ZookeeperServer::start();
    listed_and_released(&server.url(), None).ended().says(76, "lease lost");
    is_raised(&server.url());
}

#[test]
fn with_the_rights_of_the_guide() {
    let servers = five();
    let urls = with_rights(&servers).join(",");
    listed_and_released(&urls, Some(5));
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
    let found = leases(&urls, "");
    let shared = found.iter().filter(|lease| lease["shared"] == true).count();
    assert_eq!((found.len(), shared), (3, 2), "{found:?}");
    release(&urls, "").says(64, "--yes");
    assert_eq!(release(&urls, "--yes").code, Some(0));
    assert_eq!(locks(&servers), [""; 5]);
}

/// The holder may go on with what is left, and others may get what is free.
#[test]
fn a_release_on_few_nodes_says_so() {
    let servers = with_locks([Some("stuck"); 5]);
    let urls = with_rights(&servers).join(",");
    for server in &servers[2..] {
        server.cli(&["ACL", "SETUSER", "locks", "-del"]);
    }
    let words = "was released on 2 of 5 nodes, but only 2 of them will refuse";
    let done = release(&urls, "--yes").prints(69, "").says(69, words);
    assert_eq!(done.stderr.matches("perhaps released; it did not answer").count(), 3, "{done:?}");
    assert!(done.stderr.contains("This does not stop the holder"), "{done:?}");
}

#[test]
fn without_a_majority_nothing_is_released() {
    let mut servers = five();
    let holder = hold(&servers, "--node-budget 60s");
    until("all have the lock", || locks(&servers).iter().all(|lock| !lock.is_empty()));
    servers.iter_mut().take(3).for_each(RedisServer::kill);
    let listed = ask(&servers, "leases --node-budget 5s --json").says(69, "2 of 5 nodes answered");
    assert!(!listed.stdout.contains("\"held\":true"), "{listed:?}");
    assert!(listed.stdout.contains("from-environment"), "{listed:?}");
    release(&servers, "--yes --token 1").says(69, "");
    holder.go();
}

/// What stands on less than a majority is an attempt, or what is left of a lease.
#[test]
fn a_lock_on_few_nodes_is_taken_only_where_nobody_has_most() {
    let (most, few) = (Some("majority"), Some("minority"));
    let servers = with_locks([most, most, most, few, few]);
    let held: Vec<Value> = leases(&servers, "").into_iter().filter(|lease| lease["held"] == true).collect();
    let [lease] = &held[..] else { panic!("{held:?}") };
    let done = release(&servers, &format!("--yes --token {}", lease["token"].as_str().unwrap()));
    assert!(done.code == Some(0) && done.stdout.contains("on 3 of 5 nodes"), "{done:?}");
    assert_eq!(locks(&servers), ["", "", "", "minority", "minority"]);

    // It has no token: whoever comes next may get the same.
    let asked = release(&servers, "").says(64, "on 2 of 5 nodes: an unfinished attempt, or an ending lease");
    assert!(!asked.stderr.contains(", token "), "{asked:?}");
    let token = servers[3].cli(&["HGET", "{fencing}:memory", "era"]) + "000001";
    for token in [token.as_str(), "1"] {
        release(&servers, &format!("--yes --token {token}")).says(65, "");
    }
    let done = release(&servers, "--yes");
    assert!(done.code == Some(0) && done.stdout.contains("on 2 of 5 nodes"), "{done:?}");
    assert_eq!(locks(&servers), [""; 5]);
}

/// Nodes that do not answer may have the rest of a lease: it is not called the rest of an attempt.
#[test]
fn what_silent_nodes_may_have_may_well_be_held() {
    let holder = Some("holder");
    let mut servers = with_locks([Some("left-over"), None, holder, holder, holder]);
    servers.iter_mut().skip(3).for_each(RedisServer::kill);
    let perhaps = "(seen on 1 of 3 nodes that remember, of 5)";
    let asked = release(&servers, "").says(64, perhaps);
    assert_eq!(asked.stderr.matches(perhaps).count(), 2, "{asked:?}");
    let token = servers[2].cli(&["HGET", "{fencing}:memory", "era"]) + "000001";
    release(&servers, &format!("--yes --token {token}"))
        .prints(69, "")
        .says(69, "Run it without --token, or again when more nodes remember");
    assert_eq!(servers[2].cli(&["GET", LOCK]), "holder");
}

/// Nodes that have forgotten a lease may have been its majority.
#[test]
fn what_quarantined_nodes_have_forgotten_may_be_held() {
    let mut servers = five();
    let holder = hold(&servers, "--node-budget 60s");
    until("all have the lock", || locks(&servers).iter().all(|lock| !lock.is_empty()));
    servers.iter_mut().take(3).for_each(RedisServer::restart);
    assert_eq!(ask(&servers, "fleet recover --ttl 10m --node-budget 60s").code, Some(0));
    let found = leases(&servers, "");
    assert_eq!((found.len(), &found[0]["held"]), (1, &Value::Null), "{found:?}");
    assert_eq!((&found[0]["answered"], &found[0]["remember"]), (&5.into(), &2.into()), "{found:?}");
    let table = ask(&servers, "leases --node-budget 5s");
    assert!(table.stdout.contains("2 of 2 nodes that remember, of 5: perhaps held"), "{table:?}");
    let forgotten = "2 of 5 nodes remember: a lock that the others have forgotten may be held";
    assert!(table.stderr.contains(forgotten), "{table:?}");
    ask(&servers, "release --node-budget 5s --resource invoice/43").says(69, "2 of 5 nodes remember");
    release(&servers, "").says(64, "(seen on 2 of 2 nodes that remember, of 5)");
    holder.go();
}

#[test]
fn nodes_of_another_list_do_not_count() {
    let servers = with_locks([Some("stuck"); 5]);
    let wrong = release(&servers[..3], "").says(69, "0 of 3 nodes answered as nodes of this list");
    assert!(wrong.stderr.contains("a node of another fleet"), "{wrong:?}");
    assert!(wrong.stderr.contains("do the clients use this list?"), "{wrong:?}");
    // One node has gone over to another list.
    let admitted = servers[0].cli(&["HGET", "{fencing}:memory", "admitted"]);
    servers[0].cli(&["HSET", "{fencing}:memory", "admitted", &format!("{admitted},x")]);
    let asked = release(&servers, "");
    let done = release(&servers, &format!("--token {} --yes", named(&asked)));
    let words = "on 4 of 5 nodes; 4 of 5 will refuse the holder's renewal";
    assert!(done.code == Some(0) && done.stdout.contains(words), "{done:?}");
    assert_eq!(locks(&servers), ["stuck", "", "", "", ""]);
}

/// Whoever releases is written down by host and process where the environment's name cannot be.
#[test]
fn a_wrong_name_does_not_stop_the_operator() {
    let servers = with_locks([Some("stuck"); 5]);
    let asked = release(&servers, "");
    let options = format!("release --node-budget 5s --resource invoice/42 --yes --token {}", named(&asked));
    let mut command = fencing(&servers, &options);
    command.env("FENCING_HOLDER", "two words");
    assert_eq!(finish(command).code, Some(0));
    let line = servers[0].cli(&["ZRANGE", "{fencing}:audit", "0", "-1"]);
    assert!(line.contains("held by stuck; done by ") && !line.contains("two words"), "{line}");
}

/// Whoever ran it must look again: nothing says whether it was done.
#[tokio::test]
async fn a_database_that_breaks_off_has_perhaps_released() {
    let options = database::postgres().database().await;
    let url = options.to_url_lossy().to_string();
    let holder = hold(&url, "");
    let mut session = options.connect().await.unwrap();
    session.execute("BEGIN; SELECT FROM fencing_leases FOR UPDATE").await.unwrap();
    let release = fencing(&url, "release --node-budget 5s --resource invoice/42 --yes").spawn().unwrap();
    let end_it = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    // In another transaction: within one the view stays what it was.
    let mut other = options.connect().await.unwrap();
    support::waiting::until("it waits for the row", async || {
        sqlx::query_scalar::<_, i64>(end_it).fetch_one(&mut other).await.unwrap() > 0
    })
    .await;
    let ended = end(release).prints(69, "").says(69, "invoice/42 may have been released");
    assert!(ended.stderr.contains("run this again without --yes"), "{ended:?}");
    session.execute("ROLLBACK").await.unwrap();
    assert_eq!(holder.go().code, Some(0));
}

/// After a restore the operator raises the tokens.
fn is_raised(url: &str) {
    let token = || finish(run(url, patient(url), "echo $FENCING_TOKEN")).number();
    let above = token() + 1_000_000_000_000;
    ask(url, &format!("raise --above {above}")).says(64, "(held now: 0), and grant none until");
    ask(url, "raise --above 999999999999999 --yes").says(64, "--above is at most 900000000000000");
    let holder = hold(url, "");
    let words = format!("would raise all later tokens above {above}, end every lease (held now: 1)");
    until("one is held", || ask(url, &format!("raise --above {above}")).stderr.contains(&words));
    let done = ask(url, &format!("raise --above {above} --yes")).printed();
    let (raised, closed) = done.split_once('\n').unwrap();
    assert_eq!(raised, format!("later tokens are above {above}; leases ended: 1"));
    assert!(closed.starts_with("no lock is granted "), "{closed}");
    // None is granted until the holder has stopped.
    let closed = ask(url, "doctor");
    assert!(closed.code == Some(69) && closed.stdout.starts_with("fix   the lock service: "), "{closed:?}");
    drop(holder);
}

#[test]
fn lock_takes_what_redis_and_database_take() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    for url in [urls(&servers), Database::sqlite(&folder, "leases.db").url] {
        let mut command = fencing("", &format!("run --lock {url} --resource a {PATIENT} -- sh -c"));
        command.arg("test $FENCING_TOKEN -gt 0");
        finish(command).is(0);
        let listed = ask("", &format!("leases --lock {url}")).printed();
        assert!(listed.starts_with("RESOURCE"), "{listed}");
        assert_eq!(ask("", &format!("release --lock {url} --resource a")).printed(), "nobody holds a\n");
    }
}
