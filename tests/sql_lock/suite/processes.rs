//! 32 tasks in 4 processes, all after one resource.

use std::process::{Command, Stdio};

use sqlx::ConnectOptions;

use super::*;
use support::cli::end;
use support::history::{check, mark};

const PROCESSES: usize = 4;
const TASKS: usize = 8;
const LEASES: usize = 3;

#[tokio::test]
async fn tokens_strictly_grow() {
    let place = ready().await;
    let url = place.pool.connect_options().to_url_lossy().to_string();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let (_, module) = module_path!().split_once("::").unwrap();
    let child = || {
        // This very test binary, in the part of `a_contender`.
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("{module}::a_contender")]);
        command.env("FENCING_TEST_DATABASE", &url).env("FENCING_TEST_LOG", &log);
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
    let Ok(url) = std::env::var("FENCING_TEST_DATABASE") else { return };
    let log = std::path::PathBuf::from(std::env::var("FENCING_TEST_LOG").unwrap());
    let lock = builder(&Pool::connect(&url).await.unwrap()).wait(LONG).build().unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (lock, log) = (lock.clone(), log.clone());
            tokio::spawn(async move {
                for _ in 0..LEASES {
                    let lease = lock.acquire(&resource()).await.unwrap();
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
