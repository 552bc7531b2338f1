//! Makes one node at a time forget, and waits until it is back before the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use support::cli::until;
use support::redis::RedisServer;

/// A thread that owns the servers and is at them until it is told to stop.
pub struct Nemesis {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<RedisServer>>,
}

impl Nemesis {
    pub fn start(servers: Vec<RedisServer>) -> Nemesis {
        let (stop, rounds) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let thread = {
            let (stop, rounds) = (Arc::clone(&stop), Arc::clone(&rounds));
            std::thread::spawn(move || work(servers, &stop, &rounds))
        };
        Nemesis { stop, rounds, thread }
    }

    /// How many nodes have forgotten and come back so far.
    pub fn rounds(&self) -> usize {
        assert!(!self.thread.is_finished(), "the nemesis has failed");
        self.rounds.load(Ordering::SeqCst)
    }

    /// Stops it; all nodes are back then.
    pub fn stop(self) -> Vec<RedisServer> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

fn work(
    mut servers: Vec<RedisServer>,
    stop: &AtomicBool,
    rounds: &AtomicUsize,
) -> Vec<RedisServer> {
    // On the first start, too, a majority has nothing to remember yet.
    servers.iter().for_each(wait_for);
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
        wait_for(server);
        rounds.fetch_add(1, Ordering::SeqCst);
    }
    servers
}

/// Waits until the node is admitted and out of quarantine: until then it must stay the
/// only one that forgot. It comes back by itself, by way of whoever wants a lock.
fn wait_for(server: &RedisServer) {
    until("the node's return", || {
        let admitted = server.cli(&["HGET", "{fencing}:memory", "admitted"]);
        let life = admitted.split(' ').next().unwrap_or_default();
        let lives = server.cli(&["INFO", "server"]).contains(&format!("run_id:{life}"));
        !life.is_empty() && lives && server.cli(&["EXISTS", "{fencing}:quarantine"]) == "0"
    });
}
