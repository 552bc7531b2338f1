//! Private ZooKeeper servers: real, on free ports of loopback, gone with the test.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::keeper::{Keeper, own_folder};
use crate::ports::free_port;
use crate::process;

/// One server, alone or a member of an ensemble.
pub struct ZookeeperServer {
    folder: PathBuf,
    port: u16,
    java: &'static [&'static str],
    keeper: Keeper,
}

impl ZookeeperServer {
    pub fn start() -> ZookeeperServer {
        ZookeeperServer::with("")
    }

    pub fn with(settings: &str) -> ZookeeperServer {
        ZookeeperServer::with_java(settings, &[])
    }

    /// The same, with these options of Java, which go before its own.
    pub fn with_java(settings: &str, java: &'static [&'static str]) -> ZookeeperServer {
        let (folder, port) = (own_folder("fencing-zk", &[]), free_port());
        configure(&folder, port, settings);
        let keeper = launch(&folder, port, java);
        ZookeeperServer { folder, port, java, keeper }
    }

    /// Starts three members of one ensemble, with these lines in their settings besides.
    pub fn three_with(settings: &str) -> Vec<ZookeeperServer> {
        let members = [(); 3].map(|()| (own_folder("fencing-zk", &[]), free_port()));
        let peers: String =
            (1..=3).map(|id| format!("server.{id}=127.0.0.1:{}:{}\n", free_port(), free_port())).collect();
        for ((folder, port), id) in members.iter().zip(1..) {
            configure(folder, *port, &format!("initLimit=20\nsyncLimit=6\n{peers}{settings}"));
            fs::write(folder.join("data/myid"), format!("{id}")).expect("the folder is ours");
        }
        // None serves before there is a majority.
        let start = |(folder, port): (PathBuf, u16)| {
            std::thread::spawn(move || {
                let keeper = launch(&folder, port, &[]);
                ZookeeperServer { folder, port, java: &[], keeper }
            })
        };
        let started = members.map(start);
        started.into_iter().map(|member| member.join().expect("it starts")).collect()
    }

    /// Keeps a copy of its data. It must not run.
    pub fn save(&self) {
        let _ = fs::remove_dir_all(self.folder.join("saved"));
        copy(&self.folder.join("data"), &self.folder.join("saved"));
    }

    /// Takes its data back to the copy. It must not run.
    pub fn restore(&self) {
        fs::remove_dir_all(self.folder.join("data")).expect("the folder is ours");
        copy(&self.folder.join("saved"), &self.folder.join("data"));
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn url(&self) -> String {
        format!("zookeeper://{}", self.address())
    }

    pub fn signal(&self, name: &str) {
        process::signal(self.keeper.pid(), name);
    }

    pub fn leads(&self) -> bool {
        says(self.port, "Mode: leader")
    }

    pub fn kill(&mut self) {
        process::kill(&[self.keeper.pid()]);
    }

    /// Starts it again on the same folder after it was killed.
    pub fn restart(&mut self) {
        self.keeper.leave();
        self.keeper = launch(&self.folder, self.port, self.java);
    }
}

fn configure(folder: &Path, port: u16, settings: &str) {
    let data = folder.join("data");
    let text = format!(
        "tickTime=500\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n\
         maxClientCnxns=0\nmaxSessionTimeout=40000\n4lw.commands.whitelist=srvr,ruok\n{settings}\n",
        data.display()
    );
    fs::create_dir_all(data).expect("the folder is ours");
    fs::write(folder.join("zoo.cfg"), text).expect("the folder is ours");
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(status.expect("cp runs").success());
}

/// Of an option that is given twice, Java takes the last.
fn launch(folder: &Path, port: u16, java: &[&str]) -> Keeper {
    let mut program: Vec<_> =
        ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"].map(Into::into).into();
    program.extend(["/usr/share/java/*", "-Dzookeeper.forceSync=no"].iter().chain(java).map(Into::into));
    program.push("org.apache.zookeeper.server.quorum.QuorumPeerMain".into());
    program.push(folder.join("zoo.cfg").into());
    let mut shell = Command::new("sh");
    shell.current_dir(folder);
    // It has a mode when it serves clients: alone, or with a majority.
    Keeper::start(shell, folder, "KILL", program, || says(port, "Mode: "))
}

fn says(port: u16, words: &str) -> bool {
    let asked = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"srvr")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    });
    asked.is_ok_and(|answer| answer.contains(words))
}
