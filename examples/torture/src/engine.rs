//! Three members of etcd or ZooKeeper, and what is done to them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use fencing::Token;
use fencing::lock::ConnectOptions;
use support::etcd::EtcdCluster;
use support::history::Event;
use support::process::until;
use support::zookeeper::ZookeeperServer;

use crate::client::now;
use crate::faults::Fault;
use crate::nemesis::Nemesis;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    Etcd,
    Zookeeper,
}

const MEMBERS: usize = 3;
/// For how long tokens are tried to be raised.
const PATIENCE: Duration = Duration::from_secs(60);
/// Added to the largest token in the log: larger ones may have been granted since, also after an election of ZooKeeper.
const UNTOLD: u64 = 2 << 32;

/// The members, by number.
pub enum Members {
    /// With the state that a restore goes back to.
    Etcd(EtcdCluster, PathBuf),
    Zookeeper(Vec<ZookeeperServer>),
}

impl Members {
    pub fn start(engine: Engine) -> Members {
        match engine {
            Engine::Etcd => Members::Etcd(EtcdCluster::of(MEMBERS), PathBuf::new()),
            // Raised tokens close it for the longest session.
            Engine::Zookeeper => Members::Zookeeper(ZookeeperServer::three_with("maxSessionTimeout=5000")),
        }
    }

    pub fn hosts(&self) -> Vec<String> {
        match self {
            Members::Etcd(cluster, _) => (0..MEMBERS).map(|number| cluster.host(number)).collect(),
            Members::Zookeeper(servers) => servers.iter().map(ZookeeperServer::address).collect(),
        }
    }

    pub fn url(&self, hosts: &[String]) -> String {
        let scheme = if matches!(self, Members::Etcd(..)) { "etcd" } else { "zookeeper" };
        format!("{scheme}://{}", hosts.join(","))
    }

    fn signal(&self, number: usize, name: &str) {
        match self {
            Members::Etcd(cluster, _) => cluster.signal(number, name),
            Members::Zookeeper(servers) => servers[number].signal(name),
        }
    }

    /// Kills one with SIGKILL, and starts it again after that time.
    fn kill(&mut self, number: usize, down: Duration) {
        match self {
            Members::Etcd(cluster, _) => {
                cluster.kill(number);
                std::thread::sleep(down);
                cluster.restart(number);
            }
            Members::Zookeeper(servers) => {
                servers[number].kill();
                std::thread::sleep(down);
                servers[number].restart();
            }
        }
    }

    fn leader(&self) -> usize {
        let servers = match self {
            Members::Etcd(cluster, _) => return cluster.leader(),
            Members::Zookeeper(servers) => servers,
        };
        let mut leader = None;
        until("a leader", || {
            leader = servers.iter().position(ZookeeperServer::leads);
            leader.is_some()
        });
        leader.unwrap()
    }

    fn move_leader(&mut self) {
        match self {
            Members::Etcd(cluster, _) => cluster.move_leader(),
            // It has no command for that.
            Members::Zookeeper(_) => self.kill(self.leader(), Duration::ZERO),
        }
    }

    /// Saves the state that a restore goes back to.
    fn save(&mut self) {
        match self {
            Members::Etcd(cluster, snapshot) => *snapshot = cluster.snapshot(),
            Members::Zookeeper(servers) => restart_all(servers, ZookeeperServer::save),
        }
    }

    /// Kills all, and starts them in the state that was saved.
    fn restore(&mut self) {
        match self {
            Members::Etcd(cluster, snapshot) => cluster.restore(snapshot),
            Members::Zookeeper(servers) => restart_all(servers, ZookeeperServer::restore),
        }
    }
}

/// Does this to each while none runs.
fn restart_all(servers: &mut [ZookeeperServer], down: fn(&ZookeeperServer)) {
    servers.iter_mut().for_each(ZookeeperServer::kill);
    servers.iter().for_each(down);
    // None serves before there is a majority.
    std::thread::scope(|scope| {
        servers.iter_mut().for_each(|server| drop(scope.spawn(|| server.restart())));
    });
}

impl Nemesis {
    /// Makes a fault of the members, and ends it.
    pub fn harm(&self, members: &mut Members, fault: Fault, rng: &mut fastrand::Rng) {
        let (one, time) = (rng.usize(0..MEMBERS), Duration::from_millis(rng.u64(20..3000)));
        match fault {
            Fault::Kill => members.kill(one, time / 3),
            Fault::StopLeader => {
                // Now and then long enough for leases of the old leader to end.
                let leader = members.leader();
                stop(members, &[leader], if rng.bool() { time } else { time + TWO_ELECTIONS });
            }
            Fault::StopMajority => {
                let from = stop(members, &[one, (one + 1) % MEMBERS], time);
                self.events.lock().push(Event::Outage { client: None, from, to: from + nanos(time) });
            }
            Fault::MoveLeader => members.move_leader(),
            Fault::Restore => self.restore(members, time),
            _ => drop(stop(members, &[one], time)),
        }
    }

    /// Does what the runbook says: no client reaches a restored cluster before its tokens were raised.
    fn restore(&self, members: &mut Members, time: Duration) {
        members.save();
        std::thread::sleep(time);
        let _turn = self.list.hold();
        self.weather.iter().for_each(|it| it.set(Some((Fault::LoseRequests, Duration::ZERO))));
        members.restore();
        let told = self.history().attempts().filter_map(|attempt| attempt.outcome.token()).max();
        let above = Token::new(told.unwrap_or_default() + UNTOLD);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let raised = runtime.unwrap().block_on(raise(&members.url(&members.hosts()), above.unwrap()));
        self.failures.lock().extend(raised.err().map(|why| format!("tokens were not raised: {why}")));
        self.weather.iter().for_each(|it| it.set(None));
    }
}

async fn raise(url: &str, above: Token) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    let operator = ConnectOptions::new(url).operator().map_err(|error| error.to_string())?;
    loop {
        match operator.raise(above).await {
            Err(_) if Instant::now() < end => tokio::time::sleep(Duration::from_millis(100)).await,
            raised => return raised.map_err(|error| error.to_string()),
        }
    }
}

/// Longer than it takes others to elect, and to revoke what the leader had.
const TWO_ELECTIONS: Duration = Duration::from_secs(4);

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// SIGSTOP, and SIGCONT after that time. Returns when all had stopped.
fn stop(members: &Members, numbers: &[usize], time: Duration) -> u64 {
    numbers.iter().for_each(|number| members.signal(*number, "STOP"));
    let from = now();
    std::thread::sleep(time);
    numbers.iter().for_each(|number| members.signal(*number, "CONT"));
    from
}
