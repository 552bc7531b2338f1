//! The same program and the same commands over every lock service, by the URL alone.

use support::cli::*;
use support::etcd::EtcdCluster;
use support::zookeeper::ZookeeperServer;

use crate::database::Database;
use crate::holders;

/// After a restore the operator raises the tokens.
fn is_raised(url: &str) {
    let token = || finish(run(url, holders::patient(url), "echo $FENCING_TOKEN")).number();
    let above = token() + 1_000_000_000_000;
    ask(url, &format!("raise --above {above}")).says(64, "(held now: 0), and grant none until");
    ask(url, "raise --above 999999999999999 --yes").says(64, "--above is at most 900000000000000");
    let holder = holders::hold(url, "");
    let words = format!("would raise all later tokens above {above}, end every lease (held now: 1)");
    until("one is held", || ask(url, &format!("raise --above {above}")).stderr.contains(&words));
    let done = ask(url, &format!("raise --above {above} --yes")).printed();
    let (raised, closed) = done.split_once('\n').unwrap();
    assert_eq!(raised, format!("later tokens are above {above}; leases ended: 1"));
    assert!(closed.starts_with("no lock is granted "), "{closed}");
    // None is granted until the holder has stopped.
    let closed = ask(url, "doctor");
    assert!(closed.code == Some(69) && closed.stdout.starts_with("mend  the lock service: "), "{closed:?}");
    drop(holder);
}

#[test]
fn tokens_of_etcd_are_raised() {
    let cluster = EtcdCluster::start();
    is_raised(&cluster.url());
}

#[test]
fn tokens_of_zookeeper_are_raised() {
    let server = ZookeeperServer::start();
    is_raised(&server.url());
}

/// The same commands with `--lock`, which has any URL.
#[test]
fn lock_takes_what_redis_and_database_take() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    for url in [urls(&servers), Database::sqlite(&folder, "leases.db").url] {
        let line = format!("run --lock {url} --resource a {PATIENT} -- sh -c");
        let mut command = fencing("", &line);
        finish({
            command.arg("test $FENCING_TOKEN -gt 0");
            command
        })
        .is(0);
        let listed = ask("", &format!("leases --lock {url}")).printed();
        assert!(listed.starts_with("RESOURCE"), "{listed}");
        assert_eq!(ask("", &format!("release --lock {url} --resource a")).printed(), "nobody holds a\n");
    }
}
