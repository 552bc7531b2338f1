use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

/// A private server on loopback, in a temporary folder.
pub struct PeerServer {
    pub port: u16,
    child: Child,
    _folder: TempDir,
}

impl PeerServer {
    pub fn etcd(disk: bool) -> PeerServer {
        let (folder, port, peer) = (folder(), free_port(), free_port());
        let mut command = Command::new("etcd");
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        command.arg("--data-dir").arg(folder.path()).args(["--name", "one", "--log-level", "error"]);
        for option in ["--listen-client-urls", "--advertise-client-urls"] {
            command.args([option, &url(port)]);
        }
        for option in ["--listen-peer-urls", "--initial-advertise-peer-urls"] {
            command.args([option, &url(peer)]);
        }
        command.args(["--initial-cluster", &format!("one={}", url(peer))]);
        command.args((!disk).then_some("--unsafe-no-fsync"));
        PeerServer::start(command, port, folder)
    }

    pub fn zookeeper(disk: bool) -> PeerServer {
        let (folder, port) = (folder(), free_port());
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
        PeerServer::start(command, port, folder)
    }

    fn start(mut command: Command, port: u16, folder: TempDir) -> PeerServer {
        command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("etcd-server and zookeeper of Debian are installed");
        let server = PeerServer { port, child, _folder: folder };
        while TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).is_err() {
            sleep(Duration::from_millis(50));
        }
        // Until it has elected itself.
        sleep(Duration::from_secs(2));
        server
    }
}

impl Drop for PeerServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it listens").port()
}
