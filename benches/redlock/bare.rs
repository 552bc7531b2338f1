use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use crate::contestant::TTL;
use crate::fleet::majority;

const ACQUIRE: &str = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])";
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                       return redis.call('DEL', KEYS[1]) end return 0";

/// The least that a lock on a majority can do: one script a node, asked at once, and the first majority
/// counts. It has no token, no time limit and no watchdog, and takes back nothing.
#[derive(Clone)]
pub struct Bare {
    connections: Vec<MultiplexedConnection>,
    scripts: [String; 2],
    owners: Arc<AtomicU64>,
}

impl Bare {
    pub async fn connect(urls: &[String]) -> Bare {
        let mut connections = Vec::new();
        let mut scripts = [String::new(), String::new()];
        for url in urls {
            let client = redis::Client::open(url.as_str()).unwrap();
            let mut connection = client.get_multiplexed_async_connection().await.unwrap();
            for (digest, script) in scripts.iter_mut().zip([ACQUIRE, RELEASE]) {
                let mut load = redis::cmd("SCRIPT");
                *digest = load.arg("LOAD").arg(script).query_async(&mut connection).await.unwrap();
            }
            connections.push(connection);
        }
        Bare { connections, scripts, owners: Arc::default() }
    }

    pub async fn acquire(&self, name: &str) -> Option<String> {
        let number = self.owners.fetch_add(1, Ordering::Relaxed);
        let owner = format!("{:016x}{number:016x}", std::process::id());
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.scripts[0]).arg(1).arg(format!("bare:{name}")).arg(&owner);
        command.arg(TTL.as_millis() as u64);
        self.majority(&command, &Value::Okay).await.then_some(owner)
    }

    pub async fn release(&self, name: &str, owner: &str) {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.scripts[1]).arg(1).arg(format!("bare:{name}")).arg(owner);
        self.majority(&command, &Value::Int(1)).await;
    }

    /// Sets all of these locks on all nodes, without a look at their holders.
    pub async fn lock(&self, names: &[String]) {
        self.on_all(names, |name| Cmd::pset_ex(name, "owner", TTL.as_millis() as u64)).await;
    }

    /// Extends all of these locks on all nodes, without a look at their holders: one command for each lock and node,
    /// the least that a lock with a TTL can cost a server.
    pub async fn extend(&self, names: &[String]) {
        self.on_all(names, |name| Cmd::pexpire(name, TTL.as_millis() as i64)).await;
    }

    async fn on_all(&self, names: &[String], command: impl Fn(&String) -> Cmd) {
        let mut commands = redis::pipe();
        for name in names {
            commands.add_command(command(name));
        }
        let calls = self.connections.iter().cloned().map(|mut connection| {
            let commands = &commands;
            async move { connection.send_packed_commands(commands, 0, names.len()).await.unwrap() }
        });
        for answers in join_all(calls).await {
            assert!(answers.iter().all(|answer| [Value::Okay, Value::Int(1)].contains(answer)));
        }
    }

    async fn majority(&self, command: &Cmd, good: &Value) -> bool {
        let calls = self.connections.iter().cloned().map(|mut connection| async move {
            let answer = connection.send_packed_command(command).await;
            answer.is_ok_and(|answer| answer == *good)
        });
        majority(calls).await
    }
}
