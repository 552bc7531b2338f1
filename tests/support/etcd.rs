//! Private etcd clusters: real members, on ports of their own and in a temporary folder, stopped with the test.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::clients::{certify, output};
use crate::ports::free_ports;
use crate::process::{self, KilledOnDrop};

/// How long etcdctl waits for what must be answered.
const LONG: &str = "60s";

pub struct EtcdCluster {
    // Dropped before their folder.
    members: Vec<Member>,
    folder: TempDir,
    settings: Vec<String>,
    /// How often it was restored: each life has data of its own.
    lives: u32,
}

struct Member {
    /// The ports for clients and for the other members.
    ports: [u16; 2],
    child: Option<KilledOnDrop>,
}

impl EtcdCluster {
    pub fn start() -> EtcdCluster {
        EtcdCluster::of(1)
    }

    pub fn of(count: usize) -> EtcdCluster {
        EtcdCluster::with(count, &[])
    }

    pub fn with(count: usize, settings: &[&str]) -> EtcdCluster {
        EtcdCluster::within(tempfile::tempdir().expect("a temporary folder"), count, settings)
    }

    /// Starts a cluster of one member that has a certificate of its own.
    pub fn secure() -> EtcdCluster {
        let folder = tempfile::tempdir().expect("a temporary folder");
        certify(folder.path(), "IP:127.0.0.1");
        let file = |name: &str| folder.path().join(name).display().to_string();
        let settings = [format!("--cert-file={}", file("certificate")), format!("--key-file={}", file("key"))];
        let settings = settings.each_ref().map(String::as_str);
        EtcdCluster::within(folder, 1, &settings)
    }

    /// The certificate of the members, which vouches for itself.
    pub fn certificate(&self) -> String {
        self.folder.path().join("certificate").display().to_string()
    }

    fn within(folder: TempDir, count: usize, settings: &[&str]) -> EtcdCluster {
        let member = |ports| Member { ports, child: None };
        let members = (0..count).map(|_| free_ports()).map(member).collect();
        let settings = settings.iter().map(ToString::to_string).collect();
        let mut cluster = EtcdCluster { folder, members, settings, lives: 0 };
        (0..count).for_each(|number| cluster.spawn(number));
        cluster.until_healthy();
        cluster
    }

    pub fn url(&self) -> String {
        let all: Vec<usize> = (0..self.members.len()).collect();
        self.url_of(&all)
    }

    /// The same, with these members in this order.
    pub fn url_of(&self, numbers: &[usize]) -> String {
        let hosts: Vec<String> = numbers.iter().map(|number| self.host(*number)).collect();
        format!("etcd://{}", hosts.join(","))
    }

    pub fn host(&self, number: usize) -> String {
        format!("127.0.0.1:{}", self.members[number].ports[0])
    }

    pub fn kill(&mut self, number: usize) {
        self.members[number].child = None;
    }

    pub fn restart(&mut self, number: usize) {
        self.kill(number);
        self.spawn(number);
    }

    pub fn signal(&self, number: usize, name: &str) {
        process::signal(self.members[number].child.as_ref().expect("the member runs").0.id(), name);
    }

    /// Returns the number of the leader, as a member sees it that runs.
    pub fn leader(&self) -> usize {
        let leads = |number: &usize| {
            let status = self.try_ctl(&[*number], &["endpoint", "status", "-w", "fields"]).unwrap_or_default();
            let [leader, member] = ["\"Leader\"", "\"MemberID\""].map(|name| {
                let line = status.lines().find(|line| line.starts_with(name));
                line.and_then(|line| line.rsplit_once(' ')).map(|(_, id)| id)
            });
            leader.is_some() && leader == member
        };
        let mut leader = None;
        process::until("a leader", || {
            leader = (0..self.members.len()).find(leads);
            leader.is_some()
        });
        leader.expect("a leader")
    }

    pub fn move_leader(&self) {
        process::until("the leader moves", || {
            let (leader, ids) = (self.leader(), self.ctl(&["member", "list"]));
            let other = (leader + 1) % self.members.len();
            let id = ids.lines().find(|line| line.contains(&format!("m{other},")));
            let id = id.and_then(|line| line.split(',').next()).expect("a member");
            self.try_ctl(&[leader], &["move-leader", id]).is_some()
        });
    }

    pub fn snapshot(&self) -> PathBuf {
        let file = self.folder.path().join("snapshot");
        let text = file.to_str().expect("a path");
        let _ = std::fs::remove_file(&file);
        self.run(LONG, &[0], &["snapshot", "save", text]).expect("a snapshot");
        file
    }

    pub fn restore(&mut self, snapshot: &Path) {
        (0..self.members.len()).for_each(|number| self.kill(number));
        self.lives += 1;
        for number in 0..self.members.len() {
            let mut restore = self.etcdctl(LONG);
            restore.args(["snapshot", "restore"]).arg(snapshot).args(self.identity(number));
            output(&mut restore).expect("the snapshot is restored");
            self.spawn(number);
        }
        self.until_healthy();
    }

    /// Runs a command through etcdctl, which asks any member.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        let all: Vec<usize> = (0..self.members.len()).collect();
        self.run(LONG, &all, arguments).expect("etcd answers")
    }

    /// The same by these members; `None` if it fails, or takes longer than a moment.
    pub fn try_ctl(&self, members: &[usize], arguments: &[&str]) -> Option<String> {
        self.run("2s", members, arguments)
    }

    fn run(&self, limit: &str, members: &[usize], arguments: &[&str]) -> Option<String> {
        let scheme = self.scheme();
        let host = |number: &usize| format!("{scheme}://{}", self.host(*number));
        let hosts: Vec<String> = members.iter().map(host).collect();
        let output = self.etcdctl(limit).args(["--endpoints", &hosts.join(",")]).args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    }

    fn scheme(&self) -> &'static str {
        if self.folder.path().join("certificate").exists() { "https" } else { "http" }
    }

    fn etcdctl(&self, limit: &str) -> Command {
        let mut etcdctl = Command::new("etcdctl");
        if self.scheme() == "https" {
            etcdctl.arg("--cacert").arg(self.certificate());
        }
        etcdctl.env("ETCDCTL_API", "3").args(["--command-timeout", limit]);
        etcdctl
    }

    /// What names a member within its cluster, and where its data is.
    fn identity(&self, number: usize) -> Vec<String> {
        let peer = |number: usize| format!("http://127.0.0.1:{}", self.members[number].ports[1]);
        let all = (0..self.members.len()).map(|number| format!("m{number}={}", peer(number)));
        let data = self.folder.path().join(format!("{}-{number}", self.lives));
        vec![
            format!("--name=m{number}"),
            format!("--data-dir={}", data.display()),
            format!("--initial-cluster={}", all.collect::<Vec<_>>().join(",")),
            format!("--initial-advertise-peer-urls={}", peer(number)),
        ]
    }

    fn spawn(&mut self, number: usize) {
        let ([client, peer], scheme) = (self.members[number].ports, self.scheme());
        let log = self.folder.path().join(format!("log-{number}"));
        let log = std::fs::File::options().create(true).append(true).open(log).expect("a file");
        // A group of its own: where a shell ends, the kernel continues what is stopped in its group.
        let mut etcd = Command::new("etcd");
        etcd.process_group(0).args(self.identity(number)).arg(format!("--listen-peer-urls=http://127.0.0.1:{peer}"));
        for option in ["listen-client-urls", "advertise-client-urls"] {
            etcd.arg(format!("--{option}={scheme}://127.0.0.1:{client}"));
        }
        let child = etcd.args(&self.settings).stdout(Stdio::null()).stderr(log).spawn();
        self.members[number].child = Some(KilledOnDrop(child.expect("etcd is installed: tests/run does that")));
    }

    fn until_healthy(&mut self) {
        process::until("etcd answers", || {
            for member in &mut self.members {
                let ended = member.child.as_mut().and_then(|child| child.0.try_wait().ok().flatten());
                assert!(ended.is_none(), "etcd has ended: {ended:?}");
            }
            (0..self.members.len()).all(|number| self.try_ctl(&[number], &["get", "x"]).is_some())
        });
    }
}
