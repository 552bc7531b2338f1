use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use support::ports::free_port;
use tempfile::TempDir;

/// A private ZooKeeper of one member on loopback, in a temporary folder.
pub struct ZookeeperServer {
    pub port: u16,
    child: Child,
    _folder: TempDir,
}

impl ZookeeperServer {
    pub fn start(disk: bool) -> ZookeeperServer {
        let (folder, port) = (tempfile::tempdir().expect("a temporary folder"), free_port());
        let settings = folder.path().join("zoo.cfg");
        let text = format!(
            "tickTime=1000\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
             admin.enableServer=false\nmaxClientCnxns=0\n",
            folder.path().display()
        );
        fs::write(&settings, text).expect("the folder is ours");
        let mut command = Command::new("java");
        let sync = if disk { "yes" } else { "no" };
        command.args(["-Xmx512m", "-cp", "/usr/share/java/*"]);
        command.arg(format!("-Dzookeeper.forceSync={sync}"));
        command.arg("-Dzookeeper.extendedTypesEnabled=true");
        command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(settings);
        command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("zookeeper of Debian is installed");
        while TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).is_err() {
            sleep(Duration::from_millis(50));
        }
        // Until it serves.
        sleep(Duration::from_secs(2));
        ZookeeperServer { port, child, _folder: folder }
    }
}

impl Drop for ZookeeperServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
