use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fencing::Redlock;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::contestant::Contestant;

/// Private servers of one row, without persistence, on sockets in a temporary folder.
pub struct Servers(pub Vec<Server>);

pub struct Server {
    folder: TempDir,
    child: Child,
}

impl Servers {
    pub async fn start(number: usize) -> Servers {
        let servers = Servers((0..number).map(|_| Server::start()).collect());
        for server in &servers.0 {
            while server.connection().await.is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        servers
    }

    pub fn urls(&self) -> Vec<String> {
        self.0.iter().map(Server::url).collect()
    }

    pub fn pids(&self) -> Vec<u32> {
        self.0.iter().map(|server| server.child.id()).collect()
    }
}

impl Server {
    fn start() -> Server {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let child = Command::new("redis-server")
            .process_group(0)
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(folder.path().join("redis.sock"))
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        Server { folder, child }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    pub fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub async fn connection(&self) -> Option<redis::aio::MultiplexedConnection> {
        let client = redis::Client::open(self.url()).unwrap();
        client.get_multiplexed_async_connection().await.ok()
    }

    /// Runs a command on a connection of its own, however long it takes.
    pub async fn run(&self, command: &redis::Cmd) {
        let mut connection = self.connection().await.expect("the server runs");
        connection.set_response_timeout(Duration::from_secs(60));
        connection.send_packed_command(command).await.expect("the server does it");
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process");
        kill_process(pid, signal).expect("the server is ours");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets every contestant open its connections, and the nodes start.
pub async fn settle(contestants: &[Contestant]) {
    for contestant in contestants {
        contestant.pair("warm").await;
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    for contestant in contestants {
        for _ in 0..50 {
            contestant.pair("warm").await;
        }
    }
}

/// The servers of one row, and all contestants on them.
pub async fn of_all(nodes: usize) -> (Servers, Vec<Contestant>) {
    let servers = Servers::start(nodes).await;
    let contestants = Contestant::all(&servers.urls()).await;
    settle(&contestants).await;
    (servers, contestants)
}

/// Five servers, and this crate alone on them.
pub async fn of_fencing() -> (Servers, Redlock) {
    let servers = Servers::start(5).await;
    let redlock = Contestant::redlock(&servers.urls());
    settle(&[Contestant::Fencing(redlock.clone())]).await;
    (servers, redlock)
}
