//! The same program and the same commands over every lock service, by the URL alone.

use std::time::Duration;

use fencing::Resource;
use fencing::lock::{AcquireError, ConnectOptions, Released};
use support::cli::*;
use support::etcd::EtcdCluster;
use support::zookeeper::ZookeeperServer;

use crate::database::Database;
use crate::holders;

/// One program: leases of one resource, shared, and of several, and their tokens.
async fn works(url: &str) {
    let connect = async |holder: &str| {
        let options = ConnectOptions::new(url).holder(holder).wait(Duration::from_secs(60));
        // A machine that is busy with other tests must not look like servers that are down.
        options.budget(Duration::from_secs(2)).connect().await.unwrap()
    };
    let (lock, names) = (connect("billing-7").await, ["a", "a/b", "c"]);
    let [one, two, three] = names.map(|name| Resource::new(name).unwrap());
    let lease = lock.acquire(&one).await.unwrap();
    let Err(AcquireError::Held { holder: Some(holder), .. }) = lock.try_acquire(&one).await else {
        panic!("{url}: it is held");
    };
    assert_eq!(holder.name.as_deref(), Some("billing-7"), "{url}");
    lease.renew().await.unwrap();
    let first = lease.token();
    assert_eq!(lease.release().await, Ok(Released::Released), "{url}");
    let parts = [lock.acquire_shared(&one).await.unwrap(), lock.acquire_shared(&one).await.unwrap()];
    assert!(parts.iter().all(|part| part.token() > first), "{url}");
    assert!(matches!(lock.try_acquire(&one).await, Err(AcquireError::Held { .. })), "{url}");
    for part in parts {
        assert_eq!(part.release().await, Ok(Released::Released), "{url}");
    }
    let all = lock.acquire_all(&[three.clone(), one.clone(), two.clone()]).await.unwrap();
    let sequencers = all.sequencers();
    assert!(sequencers.iter().any(|it| it.resource == one && it.token > first), "{url}");
    assert!(matches!(lock.try_acquire(&two).await, Err(AcquireError::Held { .. })), "{url}");
    assert_eq!(all.release().await, Ok(Released::Released), "{url}");
    drop(lock.acquire_any(&[two, three]).await.unwrap());
    assert!(lock.health().await.has_quorum(), "{url}");
    lock.settle().await;
}

#[tokio::test]
async fn one_program_runs_over_every_lock_service() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    let sqlite = Database::sqlite(&folder, "leases.db").url;
    let (postgres, mariadb) = (Database::postgres().await.url, Database::mariadb().await.url);
    let (etcd, zookeeper) = (EtcdCluster::start(), ZookeeperServer::start());
    let engines = [etcd.url(), zookeeper.url()];
    for url in ["memory:".into(), urls(&servers), sqlite, postgres, mariadb].iter().chain(&engines) {
        works(url).await;
    }
}

/// After a restore the operator raises the tokens.
fn is_raised(url: &str) {
    let token = || finish(run(url, "", "echo $FENCING_TOKEN")).number();
    let above = token() + 1_000_000_000_000;
    ask(url, &format!("raise --above {above}")).says(64, "(held now: 0), and grant none until");
    let holder = holders::hold(url, "");
    let asked = ask(url, &format!("raise --above {above}"));
    asked.says(64, &format!("would raise all later tokens above {above}, end every lease (held now: 1)"));
    let done = ask(url, &format!("raise --above {above} --yes")).printed();
    assert_eq!(done, format!("later tokens are above {above}; leases ended: 1\n"));
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
        let line = format!("run --lock {url} --resource a --node-budget 1s -- sh -c");
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
