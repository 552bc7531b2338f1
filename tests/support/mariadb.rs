//! Private MariaDB servers, also as a Galera cluster: real, on sockets in a temporary folder, gone with the test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use crate::keeper::{Keeper, first_of, instead_of_root, own_folder};
use crate::ports::free_ports;
use crate::process;

/// The kernel's contexts for asynchronous writes are few, and many servers may run.
const NO_AIO: &str = "--innodb-use-native-aio=0";

pub struct MariadbServer {
    folder: PathBuf,
    settings: Vec<String>,
    keeper: Keeper,
    databases: AtomicUsize,
}

impl MariadbServer {
    pub fn start() -> MariadbServer {
        MariadbServer::with(&[])
    }

    /// Starts a server with these settings besides, such as `max-connections=300`.
    pub fn with(settings: &[&str]) -> MariadbServer {
        let folder = own_folder("fencing-my", &USER);
        install(&folder);
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let keeper = launch(&folder, &settings);
        MariadbServer { folder, settings, keeper, databases: AtomicUsize::new(0) }
    }

    pub fn client(&self, database: &str) -> Command {
        client(&self.folder, database)
    }

    pub fn program(&self, name: &str) -> Command {
        program(&self.folder, name)
    }

    pub async fn database(&self) -> MySqlConnectOptions {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{number}");
        let mut admin: MySqlConnection = self.options().connect().await.unwrap();
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::query(create).execute(&mut admin).await.unwrap();
        admin.close().await.unwrap();
        self.on(&name)
    }

    /// The database of this name, which may have been created on another node of a cluster.
    pub fn on(&self, database: &str) -> MySqlConnectOptions {
        self.options().database(database)
    }

    fn options(&self) -> MySqlConnectOptions {
        MySqlConnectOptions::new().socket(socket(&self.folder)).username("root")
    }

    pub fn kill(&mut self) {
        process::kill(&[self.pid()]);
    }

    pub fn signal(&self, name: &str) {
        process::signal(self.pid(), name);
    }

    pub fn pid(&self) -> u32 {
        self.keeper.pid()
    }

    /// Starts the server again on the same folder after it was killed.
    pub fn restart(&mut self) {
        self.keeper.leave();
        self.keeper = launch(&self.folder, &self.settings);
    }
}

fn launch(folder: &Path, settings: &[String]) -> Keeper {
    let server = first_of(["/usr/sbin/mariadbd", "/usr/local/sbin/mariadbd", "/usr/bin/mariadbd"]);
    let mut program = vec![server.into(), "--no-defaults".into(), "--skip-networking".into()];
    program.extend(as_user().map(Into::into));
    program.extend(places(folder).map(Into::into));
    program.push(format!("--socket={}", socket(folder).display()).into());
    let own = [NO_AIO, "--character-set-server=utf8mb4", "--innodb-buffer-pool-size=64M"];
    program.extend(own.map(Into::into));
    program.extend(settings.iter().map(|setting| format!("--{setting}").into()));
    Keeper::start(Command::new("sh"), folder, "KILL", program, || {
        let mut ready = client(folder, "");
        let ready = ready.args(["-e", "SELECT 1"]).stdin(Stdio::null());
        ready.output().expect("the client runs").status.success()
    })
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("socket")
}

fn client(folder: &Path, database: &str) -> Command {
    let mut client = program(folder, "mariadb");
    client.args(["--batch", "--skip-column-names", database]);
    client
}

fn program(folder: &Path, name: &str) -> Command {
    let mut program = Command::new(name);
    program.args(["--no-defaults", "-u", "root", "--default-character-set=utf8mb4"]);
    program.arg(format!("--socket={}", socket(folder).display()));
    program
}

/// A server that starts removes all temporary tables in its folder for them, also another's, which dies of that.
fn places(folder: &Path) -> [String; 2] {
    let data = format!("--datadir={}", folder.join("data").display());
    [data, format!("--tmpdir={}", folder.display())]
}

/// Fails now and then where several are made at once on a busy machine: one at a time, and again if it must be.
fn install(folder: &Path) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut said = String::new();
    for _ in 0..3 {
        let _ = std::fs::remove_dir_all(folder.join("data"));
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
        install.args(["--skip-test-db", "--skip-name-resolve", NO_AIO]).args(as_user());
        install.args(places(folder));
        let output = install.output().expect("MariaDB is installed: tests/run does that");
        if output.status.success() {
            return;
        }
        let text = [output.stdout, output.stderr].concat();
        said.push_str(&String::from_utf8_lossy(&text));
    }
    panic!("{said}");
}

/// MariaDB refuses to run as root unless it is told as whom instead.
const USER: [&str; 1] = ["mysql"];

fn as_user() -> Option<&'static str> {
    instead_of_root(&USER).map(|_| "--user=mysql")
}

/// Where Debian's package galera-4 has it, and where other systems do.
const PROVIDERS: [&str; 3] =
    ["/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so", "/usr/lib64/galera/libgalera_smm.so"];

/// Two servers, both of which take writes. What one commits the other one applies a moment later.
pub struct GaleraCluster {
    pub nodes: [MariadbServer; 2],
}

impl GaleraCluster {
    pub fn with(settings: &[&str]) -> GaleraCluster {
        let [a, b, c, d, e, f] = free_ports();
        let node = |ports, members: &str| {
            let own = node_settings(ports, members);
            let all: Vec<&str> = own.iter().map(String::as_str).chain(settings.iter().copied()).collect();
            MariadbServer::with(&all)
        };
        // The second one copies the first one's data before it answers.
        GaleraCluster { nodes: [node([a, b, c], ""), node([d, e, f], &format!("127.0.0.1:{a}"))] }
    }

    pub async fn database(&self) -> [MySqlConnectOptions; 2] {
        let first = self.nodes[0].database().await;
        let second = self.nodes[1].on(first.get_database().expect("it has a name"));
        [first, second]
    }
}

/// The nodes speak TCP with each other: for the group, for what a node has missed, and for a
/// copy of everything. On a busy machine neither takes the other for dead.
fn node_settings([group, missed, copy]: [u16; 3], members: &str) -> Vec<String> {
    let provider = PROVIDERS.into_iter().find(|path| Path::new(path).exists());
    let provider = provider.expect("Galera is installed: tests/run does that");
    vec![
        "wsrep-on=1".into(),
        format!("wsrep-provider={provider}"),
        format!("wsrep-cluster-address=gcomm://{members}"),
        "wsrep-node-address=127.0.0.1".into(),
        format!("wsrep-sst-receive-address=127.0.0.1:{copy}"),
        format!(
            "wsrep-provider-options=base_port={group};gmcast.listen_addr=tcp://127.0.0.1:{group};\
             ist.recv_addr=127.0.0.1:{missed};gcache.size=16M;\
             evs.suspect_timeout=PT30S;evs.inactive_timeout=PT1M"
        ),
        "binlog-format=ROW".into(),
        "innodb-autoinc-lock-mode=2".into(),
    ]
}
