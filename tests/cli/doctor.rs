//! `fencing doctor`: what is well, and what is to be mended, with the exit status for a timer.

use sqlx::ConnectOptions;
use support::cli::*;
use support::clients::output;
use support::etcd::EtcdCluster;
use support::mariadb::MariadbServer;
use support::redis::RedisServer;
use support::zookeeper::ZookeeperServer;

use crate::database::Database;

/// What `fencing doctor` prints on stdout, with this status and these words.
#[track_caller]
fn finds(place: &(impl Place + ?Sized), options: &str, code: i32, words: &str) -> String {
    let ended = ask(place, &format!("doctor --node-budget 20s {options}"));
    assert_eq!(ended.code, Some(code), "{ended:?}");
    assert!(ended.stdout.contains(words), "{words:?} in {ended:?}");
    ended.stdout
}

#[test]
fn nodes_that_are_new_well_or_down_are_told_apart_and_marks_in_a_redis_are_closed_until_they_are_opened() {
    let mut servers = five();
    // A node that only restarted empty is to be mended, and the others grant.
    finds(&servers, "", 0, "ok    the nodes: 5 of 5 grant leases now");
    let marks = RedisServer::start();
    let found = finds(&servers, &format!("--marks {}", marks.url()), 65, "fix   the marks: closed");
    assert!(found.contains("ok    the nodes"), "{found}");
    servers[0].cli(&["FLUSHALL"]);
    let found = finds(&servers, "", 65, "ok    the nodes: 4 of 5");
    assert!(found.contains("fix   ") && found.contains("fleet recover"), "{found}");
    servers.iter_mut().skip(2).for_each(RedisServer::kill);
    finds(&servers, "", 69, "fix   the nodes: no quorum");
}

#[test]
fn a_database_is_migrated_whole_and_protected() {
    let folder = tempfile::tempdir().unwrap();
    let it = Database::sqlite(&folder, "data.db");
    finds(&it.url, "", 69, "cannot be opened");
    it.run("CREATE TABLE files (path TEXT PRIMARY KEY, body TEXT, fencing_token ANY) STRICT").unwrap();
    finds(&it.url, "", 69, "run `fencing db migrate`");
    let leases = Database::sqlite(&folder, "leases.db");
    leases.ask("db migrate").is(0);
    finds(&leases.url, &format!("--marks {}", it.url), 65, "run `fencing db migrate`");
    it.ask("db migrate").is(0);
    it.ask("db protect --table files --column path").is(0);
    finds(&it.url, "", 0, "ok    table files: protected");
    finds(&format!("{}?mode=ro", it.url), "", 69, "readonly database");
    let triggers = it.run("SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'files'").unwrap();
    it.run(&format!("DROP TRIGGER \"{}\"", triggers.lines().next().unwrap())).unwrap();
    finds(&it.url, "", 65, "is missing: protect the table again");
}

/// A right that the role lacks is not reported as a fault of the triggers.
#[tokio::test]
async fn a_role_that_lacks_rights_is_told_which() {
    let it = Database::postgres().await;
    it.ask("db migrate").is(0);
    it.run("CREATE TABLE files (path text PRIMARY KEY)").unwrap();
    it.ask("db protect --table files --column path").is(0);
    it.run("CREATE ROLE may_check; GRANT SELECT ON _fencing_migrations TO may_check").unwrap();
    let found = finds(&it.as_role("may_check"), "", 69, "fix   the lock service: ");
    assert!(found.contains("fix   table files: ") && !found.contains("protect the table again"), "{found}");
    finds(&it.as_role("nobody_there"), "", 69, "fix   ");
}

#[test]
fn no_part_of_a_password_is_shown() {
    let found = finds("postgres://app:s3?cret@127.0.0.1:1/x", "", 64, "fix   postgres://***@127.0.0.1:1/x: ");
    assert!(!found.contains("s3") && !found.contains("cret"), "{found}");
}

#[tokio::test]
async fn servers_with_clocks_of_their_own_agree_with_this_machine_and_may_take_no_writes() {
    // What is set below holds for the whole server.
    let (postgres, server) = (Database::postgres().await, MariadbServer::start());
    let options = server.database().await;
    let mariadb = options.to_url_lossy().to_string();
    for url in [&postgres.url, &mariadb] {
        ask(url, "db migrate").is(0);
        finds(url, "", 0, "ok    the lock service: ready, as far as");
    }
    // Leases do not need it.
    postgres.run("DROP FUNCTION fencing_prune").unwrap();
    let found = finds(&postgres.url, "", 65, "ok    the lock service: ready, as far as");
    assert!(found.contains("fencing_prune"), "{found}");
    postgres.run("ALTER FUNCTION fencing_lease_renew(text, text, bigint, bigint) RENAME TO lost_renewal").unwrap();
    finds(&postgres.url, "", 69, "fix   the lock service: ");
    postgres.run("ALTER FUNCTION lost_renewal(text, text, bigint, bigint) RENAME TO fencing_lease_renew").unwrap();
    postgres.run("ALTER TABLE fencing_floor RENAME TO lost").unwrap();
    let found = finds(&postgres.url, "", 69, "the database has lost the table fencing_floor");
    assert!(found.contains("fix   the lock service: "), "{found}");
    postgres.run("ALTER TABLE lost RENAME TO fencing_floor").unwrap();
    let name = postgres.run("SELECT current_database()").unwrap();
    postgres.run(&format!("ALTER DATABASE {} SET default_transaction_read_only = on", name.trim())).unwrap();
    finds(&postgres.url, "", 69, "takes no writes: it is a standby, or read-only");
    ask(&postgres.url, "db marks raise --resource a --token 1 --yes").says(69, "read-only");
    output(server.client("mysql").args(["-e", "SET GLOBAL read_only = 1"])).unwrap();
    finds(&mariadb, "", 69, "takes no writes: it is a standby, or read-only");
    let pool = sqlx::MySqlPool::connect_lazy_with(options.clone());
    let health = fencing::lock::sql::SqlLock::builder(pool).build().unwrap().health().await;
    assert!(health.causes.iter().any(|cause| cause.to_string().contains("read-only")), "{health:?}");
    let drop =
        format!("SET GLOBAL read_only = 0; DROP PROCEDURE {}.fencing_lease_renew", options.get_database().unwrap());
    output(server.client("mysql").args(["-e", &drop])).unwrap();
    finds(&mariadb, "", 69, "fix   the lock service: ");
}

#[test]
fn etcd_and_zookeeper_answer_or_do_not() {
    let gone = [EtcdCluster::start().url(), ZookeeperServer::start().url()];
    for url in gone {
        finds(&url, "", 69, "fix   the lock service: ");
    }
    let (etcd, zookeeper) = (EtcdCluster::start(), ZookeeperServer::start());
    for url in [etcd.url(), zookeeper.url()] {
        until("it grants", || {
            let found = ask(&url, "doctor");
            found.code == Some(0) && found.stdout.contains("ok    the lock service")
        });
    }
}
