//! The nodes, and what is done to them.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::faults::Fault;
use support::redis::{IN_MEMORY, RedisServer};

const ALWAYS: &[&str] = &["--save", "", "--appendonly", "yes", "--appendfsync", "always"];

/// How each of them persists: five, and two more that the fleet may be moved to.
const PERSISTENCE: [&[&str]; 7] = [
    IN_MEMORY,
    &["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"],
    ALWAYS,
    &["--save", "1", "1", "--appendonly", "no"],
    ALWAYS,
    IN_MEMORY,
    ALWAYS,
];

const POLICIES: [&str; 8] = [
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "noeviction",
];

pub fn start() -> Vec<Mutex<RedisServer>> {
    let server = |settings: &&[&str]| Mutex::new(RedisServer::shifted(settings));
    PERSISTENCE.iter().map(server).collect()
}

/// Makes the node forget. The caller holds its lock, so nobody has stopped it.
pub fn forget(server: &mut RedisServer, fault: Fault, rng: &mut fastrand::Rng) {
    let again = match fault {
        Fault::Kill => {
            let down = Duration::from_millis(rng.u64(0..800));
            server.kill();
            std::thread::sleep(down);
            return server.restart();
        }
        Fault::Truncate => {
            server.kill();
            truncate(server, rng);
            return server.restart();
        }
        Fault::Evict => return evict(server, rng),
        Fault::Flushall => ["FLUSHALL"].as_slice(),
        Fault::Flushdb => &["FLUSHDB"],
        _ => &["UNLINK", "{fencing}:memory"],
    };
    // While it is being re-admitted, too.
    for _ in 0..rng.u8(1..4) {
        server.cli(again);
        std::thread::sleep(Duration::from_millis(rng.u64(0..60)));
    }
}

/// Cuts a piece off the end of every append-only file.
fn truncate(server: &RedisServer, rng: &mut fastrand::Rng) {
    let Some(folder) = server.socket().parent().map(|folder| folder.join("appendonlydir")) else {
        return;
    };
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if !path.to_string_lossy().ends_with(".incr.aof") {
            continue;
        }
        if let Ok(file) = std::fs::OpenOptions::new().write(true).open(&path)
            && let Ok(metadata) = file.metadata()
        {
            let _ = file.set_len(metadata.len().saturating_sub(rng.u64(1..2000)));
        }
    }
}

/// Little memory and a policy; then junk, until it hurts; then memory enough again.
fn evict(server: &RedisServer, rng: &mut fastrand::Rng) {
    const JUNK: &str = "for i = 1, 2000 do
        if redis.pcall('SET', 'junk:' .. ARGV[1] .. i, string.rep('x', 400), 'PX', 2000).err then
            return i end end return 2000";
    let policy = POLICIES[rng.usize(0..POLICIES.len())];
    server.cli(&["CONFIG", "SET", "maxmemory-policy", policy]);
    server.cli(&["CONFIG", "SET", "maxmemory", "1500000"]);
    for round in 0..rng.u8(1..6) {
        server.cli(&["EVAL", JUNK, "0", &round.to_string()]);
        std::thread::sleep(Duration::from_millis(rng.u64(0..100)));
    }
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
}

/// Waits until the node is admitted in the fleet of the members; until then it must stay the only one that
/// forgot. One that is no member any more need not come back. Not if it takes longer than that.
pub fn is_back(server: &Mutex<RedisServer>, node: usize, members: impl Fn() -> Vec<usize>, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    while Instant::now() < end {
        let members = members();
        if !members.contains(&node) {
            return true;
        }
        let server = server.lock();
        let admitted = server.cli(&["HGET", "{fencing}:memory", "admitted"]);
        let fleet = admitted.split_once(' ').map_or("", |(_, fleet)| fleet);
        let names: Vec<String> = members.iter().map(|number| format!("n{number}")).collect();
        if fleet == names.join(",") && is_of_this_life(&server, &admitted) {
            return true;
        }
        drop(server);
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Whether a server that has left a list knows that the move is done, or has forgotten that list.
pub fn has_left(server: &RedisServer) -> bool {
    let ask = |field| server.cli(&["HGET", "{fencing}:memory", field]);
    let is_told = !ask("started").is_empty();
    !is_of_this_life(server, &ask("admitted")) && (is_told || !is_of_this_life(server, &ask("sealed_as")))
}

/// Whether the server has not been started again since this was written.
fn is_of_this_life(server: &RedisServer, marker: &str) -> bool {
    let life = marker.split(' ').next().unwrap_or_default();
    !life.is_empty() && server.cli(&["INFO", "server"]).contains(&format!("run_id:{life}"))
}

pub fn state(server: &RedisServer) -> String {
    let ask = |command: &[&str]| server.cli(command).replace(['\r', '\n'], " ");
    let part = |section, name| {
        let info = ask(&["INFO", section]);
        info.split(' ').find(|part| part.starts_with(name)).unwrap_or_default().to_owned()
    };
    let (blocked, run_id) = (part("clients", "blocked_clients"), part("server", "run_id"));
    format!(
        "memory {} quarantine {} time {} policy {} {blocked} {run_id}",
        ask(&["HGETALL", "{fencing}:memory"]),
        ask(&["PTTL", "{fencing}:quarantine"]),
        ask(&["TIME"]),
        ask(&["CONFIG", "GET", "maxmemory*"]),
    )
}
