//! Servers, lists of them, and what the command line says of a list.

use std::process::Command;
pub use std::time::Duration;

use fencing::Redlock;
use fencing::lock::redlock::RedlockBuilder;
use serde_json::Value;

pub use support::cli::*;
pub use support::lease::resource;
pub use support::redis::{RedisServer, servers};

pub const MEMORY: &str = "{fencing}:memory";

/// `fencing fleet recover`, which must succeed: what it printed.
pub fn admit(list: &(impl Place + ?Sized), options: &str) -> String {
    ask(list, &format!("fleet recover --node-budget 3s {options}")).printed()
}

pub fn mover(from: &str, to: &str) -> Command {
    fencing("", &format!("fleet move --from {from} --to {to} --node-budget 5s"))
}

/// `count` servers: a fleet of the first three, and another list of those from `second` on.
pub fn two_lists(count: usize, second: usize) -> (Vec<RedisServer>, String, String) {
    let servers = servers(count);
    let (from, to) = (urls(&servers[..3]), urls(&servers[second..]));
    init(&from);
    (servers, from, to)
}

/// Leaves the servers as a mover does that dies between the two halves.
pub fn half_moved(servers: &[RedisServer], to: &str) -> Vec<String> {
    let mut names: Vec<String> = to.split(',').map(str::to_owned).collect();
    names.sort_unstable();
    for server in servers {
        let admitted = server.cli(&["HGET", MEMORY, "admitted"]);
        server.cli(&["HSET", MEMORY, "sealed_as", &admitted, "sealed_to", &names.join(",")]);
        server.cli(&["HDEL", MEMORY, "admitted"]);
    }
    names
}

pub fn lease(list: &(impl Place + ?Sized), options: &str) -> Result<u64, Ended> {
    let ended = finish(run(list, options, "echo $FENCING_TOKEN"));
    // It may say why it waits.
    if ended.code == Some(0) { Ok(ended.stdout.trim().parse().unwrap()) } else { Err(ended) }
}

/// What `fencing nodes` says: in words, and as JSON; both with the same exit status.
pub struct Said {
    /// For each node, the lines that name it.
    pub lines: Vec<String>,
    pub stdout: String,
    pub nodes: Vec<Value>,
}

#[track_caller]
pub fn nodes(list: &(impl Place + ?Sized), code: i32, words: &str) -> Said {
    // A budget that a busy machine keeps.
    let said = ask(list, "nodes --node-budget 10s").says(code, words);
    let json = ask(list, "nodes --node-budget 10s --json").says(code, words);
    let nodes: Vec<Value> = serde_json::from_str(&json.stdout).unwrap();
    let names = nodes.iter().map(|node| node["node"].as_str().unwrap());
    let lines = names.map(|name| lines_of(&said.stdout, name)).collect();
    Said { lines, stdout: said.stdout, nodes }
}

impl Said {
    #[track_caller]
    pub fn assert(&self, node: usize, words: &str) {
        assert!(self.lines[node].contains(words), "{words:?} is not in {}", self.lines[node]);
    }

    #[track_caller]
    pub fn assert_all(&self, words: &str) {
        assert!(!self.nodes.is_empty(), "no nodes are listed");
        (0..self.nodes.len()).for_each(|node| self.assert(node, words));
    }

    #[track_caller]
    pub fn assert_json(&self, node: usize, expected: &Value) {
        let found = &self.nodes[node];
        let expected = expected.as_object().unwrap();
        assert!(expected.iter().all(|(name, value)| found[name] == *value), "{expected:?} {found}");
    }

    pub fn all(&self, name: &str) -> Vec<&Value> {
        self.nodes.iter().map(|node| &node[name]).collect()
    }

    pub fn number(&self, node: usize, name: &str) -> u64 {
        self.nodes[node][name].as_u64().unwrap_or_else(|| panic!("{name}: {}", self.nodes[node]))
    }
}

/// What a node may take that a busy machine holds up.
pub const BUDGET: Duration = Duration::from_secs(10);

pub fn service(list: &(impl Place + ?Sized)) -> RedlockBuilder {
    Redlock::builder().redis(list.place().split(',')).ttl(BUDGET * 2).node_budget(BUDGET).wait(Duration::from_secs(60))
}
