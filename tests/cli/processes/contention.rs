//! 32 tasks in 4 processes, all after one resource.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use fencing::{Redlock, Resource};

use support::cli::{end, five, urls};
use support::history::{check, mark};

const PROCESSES: usize = 4;
const TASKS: usize = 8;
const LEASES: usize = 5;

#[test]
fn tokens_strictly_grow() {
    let servers = five();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let child = || {
        // This very test binary, in the part of `a_contender`.
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::contention::a_contender"]);
        command.env("FENCING_TEST_NODES", urls(&servers)).env("FENCING_TEST_LOG", &log);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (0..PROCESSES).map(|_| child()).collect();
    for child in children {
        let ended = end(child);
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    }
    assert_eq!(check(&log), PROCESSES * TASKS * LEASES);
}

/// One of the processes; nothing when it runs as a test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contender() {
    let Ok(nodes) = std::env::var("FENCING_TEST_NODES") else { return };
    let log = PathBuf::from(std::env::var("FENCING_TEST_LOG").unwrap());
    let redlock = Redlock::builder()
        .redis(nodes.split(','))
        .first_start(true)
        .ttl(Duration::from_secs(5))
        .wait(Duration::from_secs(60))
        .retry_delay(Duration::from_millis(10))
        .build()
        .unwrap();
    let resource = Resource::new("invoice/42").unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (redlock, resource, log) = (redlock.clone(), resource.clone(), log.clone());
            tokio::spawn(async move {
                for _ in 0..LEASES {
                    let lease = redlock.acquire(&resource).await.unwrap();
                    mark(&log, "start", lease.token());
                    tokio::task::yield_now().await;
                    mark(&log, "end", lease.token());
                    let _ = lease.release().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}
