//! Servers, lists of them, and what the command line says of a list.

use std::process::Command;
use std::time::Duration;

use fencing::Redlock;
use fencing::Resource;
use fencing::lock::redlock::RedlockBuilder;
use serde_json::Value;

use support::cli::{Ended, fencing_at, finish, lines_of, patience};
use support::redis::RedisServer;

pub const RESOURCE: &str = "invoice/42";

/// So many servers without persistence, not started as a fleet.
pub fn servers(count: usize) -> Vec<RedisServer> {
    (0..count).map(|_| RedisServer::start()).collect()
}

/// Servers that lose nothing in a restart, but their life.
pub fn durable(count: usize) -> Vec<RedisServer> {
    let settings = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];
    (0..count).map(|_| RedisServer::with(&settings)).collect()
}

/// The list of these.
pub fn list<'a>(servers: impl IntoIterator<Item = &'a RedisServer>) -> String {
    servers.into_iter().map(RedisServer::url).collect::<Vec<_>>().join(",")
}

/// The same under names of their own.
pub fn named<'a>(servers: impl IntoIterator<Item = &'a RedisServer>) -> String {
    let name = |(number, server): (usize, &RedisServer)| format!("node-{number}={}", server.url());
    servers.into_iter().enumerate().map(name).collect::<Vec<_>>().join(",")
}

/// `fencing` with these arguments, and the list in its environment.
pub fn command(list: &str, arguments: &[&str]) -> Command {
    let mut command = fencing_at(list);
    command.args(arguments);
    command
}

pub fn fencing(list: &str, arguments: &[&str]) -> Ended {
    finish(command(list, arguments))
}

/// `fencing fleet init`, which must succeed.
pub fn init(list: &str) {
    let ended = fencing(list, &["fleet", "init", "--node-budget", "5s"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

pub fn mover(from: &str, to: &str) -> Command {
    command("", &["fleet", "move", "--from", from, "--to", to])
}

pub fn run(list: &str, options: &[&str], script: &str) -> Command {
    let mut command = command(list, &["run", "--resource", RESOURCE]);
    command.args(options);
    if !options.contains(&"--node-budget") {
        command.args(["--node-budget", &format!("{}ms", patience(options))]);
    }
    command.args(["--", "sh", "-c", script]);
    command
}

/// One lease under `fencing run`: its token.
pub fn lease(list: &str, options: &[&str]) -> Result<u64, Ended> {
    let ended = finish(run(list, options, "echo $FENCING_TOKEN"));
    match ended.code {
        Some(0) => Ok(ended.stdout.trim().parse().unwrap()),
        _ => Err(ended),
    }
}

/// What `fencing nodes` says: in words, and as JSON; both with the same exit status.
pub struct Said {
    pub code: Option<i32>,
    /// For each node, the lines that name it.
    pub lines: Vec<String>,
    pub error: String,
    pub nodes: Vec<Value>,
}

pub fn nodes(list: &str) -> Said {
    let words = fencing(list, &["nodes"]);
    let json = fencing(list, &["nodes", "--json"]);
    assert_eq!(words.code, json.code, "{}{}", words.stderr, json.stderr);
    let nodes: Vec<Value> = serde_json::from_str(&json.stdout).unwrap();
    let names = nodes.iter().map(|node| node["node"].as_str().unwrap());
    let lines = names.map(|name| lines_of(&words.stdout, name)).collect();
    Said { code: words.code, lines, error: words.stderr, nodes }
}

impl Said {
    /// Checks that the lines of each node have these words.
    #[track_caller]
    pub fn assert_all(&self, words: &str) {
        assert!(!self.nodes.is_empty(), "no nodes are listed");
        for line in &self.lines {
            assert!(line.contains(words), "{words:?} is not in {line}");
        }
    }

    #[track_caller]
    pub fn assert_code(&self, code: i32, error: &str) {
        assert_eq!(self.code, Some(code), "{}", self.error);
        assert!(self.error.contains(error), "{}", self.error);
    }

    pub fn era(&self, node: usize) -> u64 {
        self.nodes[node]["era"].as_u64().unwrap()
    }
}

pub fn service(list: &str) -> RedlockBuilder {
    Redlock::builder()
        .redis(list.split(','))
        .ttl(Duration::from_secs(2))
        .node_budget(Duration::from_millis(500))
        .wait(Duration::from_secs(20))
}

pub fn resource() -> Resource {
    Resource::new(RESOURCE).unwrap()
}
