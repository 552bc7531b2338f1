//! `fencing doctor`: what is well, and what is to be mended, with the exit status for a timer.

use support::cli::*;
use support::etcd::EtcdCluster;
use support::redis::RedisServer;
use support::zookeeper::ZookeeperServer;

use crate::database::Database;

/// What `fencing doctor` prints on stdout, with this status and these words.
#[track_caller]
fn finds(place: &(impl Place + ?Sized), options: &str, code: i32, words: &str) -> String {
    let ended = ask(place, &format!("doctor --node-budget 2s {options}"));
    assert_eq!(ended.code, Some(code), "{ended:?}");
    assert!(ended.stdout.contains(words), "{words:?} in {ended:?}");
    ended.stdout
}

#[test]
fn nodes_that_are_new_well_or_down_are_told_apart() {
    let mut servers = five();
    // A node that only restarted empty is to be mended, and the others grant.
    finds(&servers, "", 0, "ok    the nodes: 5 of 5 grant leases now");
    servers[0].cli(&["FLUSHALL"]);
    let found = finds(&servers, "", 65, "ok    the nodes: 4 of 5");
    assert!(found.contains("mend  ") && found.contains("fleet recover"), "{found}");
    servers.iter_mut().skip(2).for_each(RedisServer::kill);
    finds(&servers, "", 69, "mend  the nodes: no quorum");
}

#[test]
fn a_database_is_migrated_whole_and_protected() {
    let folder = tempfile::tempdir().unwrap();
    let it = Database::sqlite(&folder, "data.db");
    finds(&it.url, "", 69, "cannot be opened");
    it.run("CREATE TABLE files (path TEXT PRIMARY KEY, body TEXT, fencing_token ANY) STRICT").unwrap();
    finds(&it.url, "", 65, "run `fencing db migrate`");
    it.ask("db migrate").is(0);
    it.ask("db protect --table files --column path").is(0);
    finds(&it.url, "", 0, "ok    table files: protected");
    let triggers = it.run("SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'files'").unwrap();
    it.run(&format!("DROP TRIGGER \"{}\"", triggers.lines().next().unwrap())).unwrap();
    finds(&it.url, "", 65, "mend  table files: ");
}

#[tokio::test]
async fn servers_with_clocks_of_their_own_agree_with_this_machine() {
    for it in [Database::postgres().await, Database::mariadb().await] {
        it.ask("db migrate").is(0);
        finds(&it.url, "", 0, "its tables are up to date");
    }
}

#[test]
fn marks_in_a_redis_are_closed_until_they_are_opened() {
    let (servers, marks) = (five(), RedisServer::start());
    let found = finds(&servers, &format!("--marks {}", marks.url()), 65, "mend  the marks: closed");
    assert!(found.contains("ok    the nodes"), "{found}");
}

#[test]
fn etcd_and_zookeeper_answer_or_do_not() {
    let gone = [EtcdCluster::start().url(), ZookeeperServer::start().url()];
    for url in gone {
        finds(&url, "", 69, "mend  the lock service: ");
    }
    let (etcd, zookeeper) = (EtcdCluster::start(), ZookeeperServer::start());
    for url in [etcd.url(), zookeeper.url()] {
        finds(&url, "", 0, "ok    the lock service");
    }
}
