//! Private MariaDB servers: real, on sockets in a temporary folder, gone with the test.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use crate::process;

/// Stops the server and removes its folder at the end of the input, which comes however
/// the test process ends.
const KEEPER: &str = r#"
trap '' HUP INT TERM
folder=$1; shift
"$@" </dev/null & server=$!
echo $server >"$folder/pid"
cat >/dev/null
kill -KILL $server 2>/dev/null; wait $server
cd /; rm -rf "$folder""#;

/// The kernel's contexts for asynchronous writes are few, and many servers may run.
const NO_AIO: &str = "--innodb-use-native-aio=0";

/// One private server.
pub struct MariadbServer {
    folder: PathBuf,
    settings: Vec<String>,
    keeper: Option<Child>,
    databases: AtomicUsize,
}

impl MariadbServer {
    /// Starts a server with MariaDB's own settings.
    pub fn start() -> MariadbServer {
        MariadbServer::with(&[])
    }

    /// Starts a server with these settings besides, such as `max-connections=300`.
    pub fn with(settings: &[&str]) -> MariadbServer {
        let folder = tempfile::Builder::new().prefix("fencing-my").tempdir();
        let folder = folder.expect("a temporary folder").keep();
        if let Some((uid, gid)) = other_user() {
            chown(&folder, Some(uid), Some(gid)).expect("root may");
        }
        install(&folder);
        let settings = settings.iter().map(ToString::to_string).collect();
        let databases = AtomicUsize::new(0);
        let mut server = MariadbServer { folder, settings, keeper: None, databases };
        server.launch();
        server
    }

    fn launch(&mut self) {
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "sh"]).arg(&self.folder).arg(server_binary());
        keeper.args(["--no-defaults", "--skip-networking", NO_AIO]).args(as_user());
        keeper.args(places(&self.folder));
        keeper.arg(format!("--socket={}", self.socket().display()));
        keeper.args(["--character-set-server=utf8mb4", "--innodb-buffer-pool-size=64M"]);
        keeper.args(self.settings.iter().map(|setting| format!("--{setting}")));
        let log = std::fs::File::create(self.folder.join("log")).expect("a file");
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        self.keeper = Some(keeper.spawn().expect("sh runs"));
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let mut ready = self.client("");
            let ready = ready.args(["-e", "SELECT 1"]).stdin(Stdio::null());
            if ready.output().expect("the client runs").status.success() {
                return;
            }
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < end, "mariadbd does not answer:\n{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// The `mariadb` client on this database.
    pub fn client(&self, database: &str) -> Command {
        let mut client = self.program("mariadb");
        client.args(["--batch", "--skip-column-names", database]);
        client
    }

    /// A program of MariaDB on this server.
    pub fn program(&self, name: &str) -> Command {
        let mut program = Command::new(name);
        program.args(["--no-defaults", "-u", "root", "--default-character-set=utf8mb4"]);
        program.arg(format!("--socket={}", self.socket().display()));
        program
    }

    /// A new, empty database.
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
        MySqlConnectOptions::new().socket(self.socket()).username("root")
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        process::kill(&[self.pid()]);
    }

    /// Sends the server a signal: `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        process::signal(self.pid(), name);
    }

    /// The process of the server.
    pub fn pid(&self) -> u32 {
        let pid = std::fs::read_to_string(self.folder.join("pid")).expect("the server runs");
        pid.trim().parse().expect("a process id")
    }

    /// Starts the server again on the same folder after it was killed.
    pub fn restart(&mut self) {
        // The keeper of the dead server must not remove the folder.
        if let Some(mut keeper) = self.keeper.take() {
            keeper.kill().expect("the keeper is ours");
            keeper.wait().expect("the keeper is ours");
        }
        self.launch();
    }
}

/// A server that starts removes the temporary tables in its folder for them, whoever's they
/// are, and the other server dies of that.
fn places(folder: &Path) -> [String; 2] {
    let data = format!("--datadir={}", folder.join("data").display());
    [data, format!("--tmpdir={}", folder.display())]
}

/// Fails now and then where several are made at once on a busy machine: one at a time, and
/// again if it must be.
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

impl Drop for MariadbServer {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }
}

/// Where the server is that a path for users may not show.
fn server_binary() -> &'static Path {
    let places = ["/usr/sbin/mariadbd", "/usr/local/sbin/mariadbd", "/usr/bin/mariadbd"];
    let mut places = places.into_iter().map(Path::new);
    places.find(|path| path.exists()).unwrap_or(Path::new("mariadbd"))
}

/// MariaDB refuses to run as root unless it is told as whom instead.
fn other_user() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse::<u32>().ok()
    };
    (id(&["-u"]) == Some(0)).then(|| Some((id(&["-u", "mysql"])?, id(&["-g", "mysql"])?)))?
}

fn as_user() -> Option<&'static str> {
    other_user().map(|_| "--user=mysql")
}
