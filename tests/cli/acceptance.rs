//! `fencing run` from the shell while nodes are killed, flushed and restarted one at a
//! time: tokens strictly grow in the order in which the leases were granted.

use std::path::Path;
use std::process::Command;

use crate::nemesis::Nemesis;
use support::cli::{Ended, fencing_at, finish, started, urls};
use support::history::check;
use support::redis::RedisServer;

/// Two of the five come back with what they had on disk.
fn five() -> Vec<RedisServer> {
    let durable = ["--appendonly", "yes", "--appendfsync", "everysec"];
    let server = |n| if n < 3 { RedisServer::start() } else { RedisServer::with(&durable) };
    started((0..5).map(server).collect())
}

/// One lease, whose command writes down when it began and when it ended.
fn lease(urls: &str, log: &Path) -> Command {
    let log = log.display();
    let script = format!("echo start $FENCING_TOKEN >> {log}; echo end $FENCING_TOKEN >> {log}");
    let mut command = fencing_at(urls);
    command.args(["run", "--resource", "invoice/42", "--ttl", "4s", "--wait", "60s"]);
    command.args(["--node-budget", "1s"]);
    command.args(["--", "sh", "-c", &script]);
    command
}

fn assert_good(ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn two_hundred_leases_one_after_another() {
    let servers = five();
    let (urls, folder) = (urls(&servers), tempfile::tempdir().unwrap());
    let log = folder.path().join("log");
    let nemesis = Nemesis::start(servers);
    let mut leases = 0;
    while leases < 200 || nemesis.rounds() < 8 {
        assert_good(&finish(lease(&urls, &log)));
        leases += 1;
    }
    // Whoever wants a lock brings the last node back.
    let stopping = std::thread::spawn(move || nemesis.stop());
    while !stopping.is_finished() {
        assert_good(&finish(lease(&urls, &log)));
        leases += 1;
    }
    stopping.join().unwrap();
    assert_eq!(check(&log), leases);
}

#[test]
fn eight_at_once() {
    let servers = five();
    let (urls, folder) = (urls(&servers), tempfile::tempdir().unwrap());
    let log = folder.path().join("log");
    let nemesis = Nemesis::start(servers);
    let worker = || {
        let mut leases = 0;
        while leases < 12 || nemesis.rounds() < 5 {
            assert_good(&finish(lease(&urls, &log)));
            leases += 1;
        }
        leases
    };
    let leases: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    let stopping = std::thread::spawn(move || nemesis.stop());
    let mut more = 0;
    while !stopping.is_finished() {
        assert_good(&finish(lease(&urls, &log)));
        more += 1;
    }
    stopping.join().unwrap();
    assert_eq!(check(&log), leases + more);
}
