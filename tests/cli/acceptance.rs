//! `fencing run` from the shell while nodes are killed, flushed and restarted one at a
//! time: tokens strictly grow in the order in which the leases were granted.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use support::cli::*;

/// Says how many leases are in the log: none within another, and each with a larger token than the one before.
fn in_order(log: &Path) -> usize {
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<_> = text.lines().map(|line| line.split_once(' ').unwrap()).collect();
    let token = |pair: &[(&str, &str)]| match pair {
        [("start", token), ("end", same)] if token == same => token.parse().unwrap(),
        _ => panic!("overlapping: {pair:?}"),
    };
    let tokens: Vec<u64> = lines.chunks(2).map(token).collect();
    assert!(tokens.is_sorted_by(|before, after| before < after), "{tokens:?}");
    tokens.len()
}

/// So many clients have at least so many leases each, in so many rounds of faults at least.
const CLIENTS: usize = 8;
const LEAST: usize = 8;
const ROUNDS: usize = 5;

#[test]
fn leases_are_in_order_while_nodes_forget() {
    // Two of the five come back with what they had on disk.
    let durable = ["--appendonly", "yes", "--appendfsync", "everysec"];
    let server = |n| if n < 3 { RedisServer::start() } else { RedisServer::with(&durable) };
    let mut servers = started((0..5).map(server).collect());
    let (urls, folder) = (urls(&servers), tempfile::tempdir().unwrap());
    let log = folder.path().join("log");
    let (done, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    // Its command writes down when it began and when it ended.
    let lease = || {
        let note = |what: &str| format!("echo {what} $FENCING_TOKEN >> {}", log.display());
        let script = format!("{}; {}", note("start"), note("end"));
        assert_eq!(finish(run(&urls, "--ttl 10s --wait 60s", &script)).code, Some(0));
        1
    };
    let work = || {
        let mut leases = 0;
        while leases < LEAST || done.load(Ordering::SeqCst) < ROUNDS {
            leases += lease();
        }
        leases
    };
    let leases: usize = std::thread::scope(|scope| {
        let nemesis = scope.spawn(|| nemesis(&mut servers, &stop, &done));
        let workers: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(work)).collect();
        let mut leases = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
        stop.store(true, Ordering::SeqCst);
        // Whoever wants a lock brings the last node back.
        while !nemesis.is_finished() {
            leases += lease();
        }
        leases
    });
    assert_eq!(in_order(&log), leases);
}

/// Makes one node at a time forget, and waits until it is back before the next.
fn nemesis(servers: &mut [RedisServer], stop: &AtomicBool, done: &AtomicUsize) {
    for round in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        // 5 and 4 have no common divisor: each fault comes to each node.
        let server = &mut servers[round % 5];
        match round % 4 {
            0 => {
                server.kill();
                std::thread::sleep(Duration::from_millis(300));
                server.restart();
            }
            1 => drop(server.cli(&["FLUSHALL"])),
            2 => server.restart(),
            _ => drop(server.cli(&["UNLINK", "{fencing}:memory"])),
        }
        // Until it is admitted and out of quarantine it must stay the only one that forgot. It comes back by itself,
        // by way of whoever wants a lock.
        until("the node's return", || server.is_admitted() && server.cli(&["EXISTS", "{fencing}:quarantine"]) == "0");
        done.fetch_add(1, Ordering::SeqCst);
    }
}
