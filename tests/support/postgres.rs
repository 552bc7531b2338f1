//! Private PostgreSQL servers: real, on sockets in a temporary folder, gone with the test.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use crate::process;

/// Stops the server, also one that was stopped by a signal, and removes its folder at the end of the input, which comes however
/// the test process ends.
const KEEPER: &str = r#"
trap '' HUP INT TERM
folder=$1; shift
"$@" </dev/null & server=$!
cat >/dev/null
kill -QUIT $server 2>/dev/null; kill -CONT $server 2>/dev/null; wait $server
cd /; rm -rf "$folder""#;

/// One private server.
pub struct PostgresServer {
    folder: PathBuf,
    settings: Vec<String>,
    keeper: Option<Child>,
    databases: AtomicUsize,
}

impl PostgresServer {
    /// Starts a server with PostgreSQL's own settings.
    pub fn start() -> PostgresServer {
        PostgresServer::with(&[])
    }

    /// Starts a server with these settings besides, such as `fsync=off`.
    pub fn with(settings: &[&str]) -> PostgresServer {
        let folder = own_folder();
        let mut initdb = as_owner(&folder, &binary("initdb"));
        initdb.args(["-U", "fencing", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
        let output = initdb.arg("-D").arg(folder.join("data")).output().expect("initdb runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let settings = settings.iter().map(ToString::to_string).collect();
        let databases = AtomicUsize::new(0);
        let mut server = PostgresServer { folder, settings, keeper: None, databases };
        server.launch();
        server
    }

    /// A server that follows this one, and answers reads.
    pub fn standby(&self) -> PostgresServer {
        let folder = own_folder();
        let mut copy = as_owner(&folder, &binary("pg_basebackup"));
        copy.args(["-U", "fencing", "--checkpoint=fast", "-R", "-h"]).arg(&self.folder);
        let output = copy.arg("-D").arg(folder.join("data")).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let (settings, databases) = (self.settings.clone(), AtomicUsize::new(0));
        let mut server = PostgresServer { folder, settings, keeper: None, databases };
        server.launch();
        server
    }

    /// Where its socket is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The database of this name, as this server has it.
    pub fn on(&self, database: &str) -> PgConnectOptions {
        self.options(database)
    }

    fn launch(&mut self) {
        let mut keeper = as_owner(&self.folder, Path::new("sh"));
        keeper.args(["-c", KEEPER, "sh"]).arg(&self.folder).arg(binary("postgres"));
        keeper.arg("-D").arg(self.folder.join("data")).arg("-k").arg(&self.folder);
        keeper.args(["-c", "listen_addresses="]);
        keeper.args(self.settings.iter().flat_map(|setting| ["-c", setting]));
        let log = std::fs::File::create(self.folder.join("log")).expect("a file");
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        self.keeper = Some(keeper.spawn().expect("sh runs"));
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let mut ready = Command::new(binary("pg_isready"));
            ready.args(["-q", "-U", "fencing", "-d", "postgres", "-h"]).arg(&self.folder);
            if ready.status().expect("pg_isready runs").success() {
                return;
            }
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < end, "postgres does not answer:\n{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A new, empty database.
    pub async fn database(&self) -> PgConnectOptions {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{number}");
        let mut admin: PgConnection = self.options("postgres").connect().await.unwrap();
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::query(create).execute(&mut admin).await.unwrap();
        admin.close().await.unwrap();
        self.options(&name)
    }

    fn options(&self, database: &str) -> PgConnectOptions {
        PgConnectOptions::new().socket(&self.folder).username("fencing").database(database)
    }

    /// The client `psql` on this database.
    pub fn client(&self, database: &str) -> Command {
        let mut client = Command::new("psql");
        client.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose"]);
        client.arg("-h").arg(&self.folder).args(["-U", "fencing", "-d", database]);
        client
    }

    /// Kills every process of the server with SIGKILL.
    pub fn kill(&mut self) {
        process::kill(&self.processes());
    }

    /// Sends a signal to every process of the server: `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        self.processes().iter().for_each(|pid| process::signal(*pid, name));
    }

    /// The processes of the server.
    pub fn processes(&self) -> Vec<u32> {
        let file = self.folder.join("data/postmaster.pid");
        let text = std::fs::read_to_string(file).expect("the server runs");
        let main = text.lines().next().expect("a process id").parse().expect("a process id");
        std::iter::once(main).chain(process::children_of(main)).collect()
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

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }
}

/// A new folder that belongs to the user of the servers.
pub(crate) fn own_folder() -> PathBuf {
    let folder = tempfile::Builder::new().prefix("fencing-pg").tempdir();
    let folder = folder.expect("a temporary folder").keep();
    if let Some((uid, gid)) = other_user() {
        chown(&folder, Some(uid), Some(gid)).expect("root may");
    }
    folder
}

/// The newest of the installed ones.
fn binary(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let found = versions.map(|entry| entry.path());
    let found = found.filter(|path| path.join("bin").join(name).exists());
    let found = found.max_by_key(|path| version(path));
    found.expect("PostgreSQL is installed: tests/run does that").join("bin").join(name)
}

/// PostgreSQL refuses to run as root: the user and group that it shall run as instead.
fn other_user() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse::<u32>().ok()
    };
    let users = ["postgres", "nobody"].into_iter().filter(|_| id(&["-u"]) == Some(0));
    users.filter_map(|user| Some((id(&["-u", user])?, id(&["-g", user])?))).next()
}

pub(crate) fn as_owner(folder: &Path, program: &Path) -> Command {
    let mut command = match other_user() {
        Some((uid, gid)) => {
            let mut command = Command::new("setpriv");
            command.args([format!("--reuid={uid}"), format!("--regid={gid}")]);
            command.arg("--clear-groups").arg(program);
            command
        }
        None => Command::new(program),
    };
    command.current_dir(folder);
    command
}
