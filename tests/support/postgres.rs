//! Private PostgreSQL servers: real, on sockets in a temporary folder, gone with the test.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use crate::clients::output;
use crate::keeper::{Keeper, first_of, instead_of_root, own_folder};
use crate::process;

pub struct PostgresServer {
    folder: PathBuf,
    settings: Vec<String>,
    keeper: Keeper,
    databases: AtomicUsize,
}

impl PostgresServer {
    pub fn start() -> PostgresServer {
        PostgresServer::with(&[])
    }

    /// Starts a server with these settings besides, such as `fsync=off`.
    pub fn with(settings: &[&str]) -> PostgresServer {
        let folder = own_folder("fencing-pg", &USERS);
        let mut initdb = as_owner(&folder, &binary("initdb"));
        initdb.args(["-U", "fencing", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
        output(initdb.arg("-D").arg(folder.join("data"))).unwrap();
        PostgresServer::on_folder(folder, settings.iter().map(ToString::to_string).collect())
    }

    /// A server that follows this one, and answers reads.
    pub fn standby(&self) -> PostgresServer {
        let folder = own_folder("fencing-pg", &USERS);
        let mut copy = as_owner(&folder, &binary("pg_basebackup"));
        copy.args(["-U", "fencing", "--checkpoint=fast", "-R", "-h"]).arg(&self.folder);
        output(copy.arg("-D").arg(folder.join("data"))).unwrap();
        PostgresServer::on_folder(folder, self.settings.clone())
    }

    fn on_folder(folder: PathBuf, settings: Vec<String>) -> PostgresServer {
        let keeper = launch(&folder, &settings);
        PostgresServer { folder, settings, keeper, databases: AtomicUsize::new(0) }
    }

    pub async fn database(&self) -> PgConnectOptions {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{number}");
        let mut admin: PgConnection = self.on("postgres").connect().await.unwrap();
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::query(create).execute(&mut admin).await.unwrap();
        admin.close().await.unwrap();
        self.on(&name)
    }

    /// The database of this name, as this server has it.
    pub fn on(&self, database: &str) -> PgConnectOptions {
        PgConnectOptions::new().socket(&self.folder).username("fencing").database(database)
    }

    pub fn client(&self, database: &str) -> Command {
        let mut client = Command::new("psql");
        client.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose"]);
        client.arg("-h").arg(&self.folder).args(["-U", "fencing", "-d", database]);
        client
    }

    pub fn kill(&mut self) {
        process::kill(&self.processes());
    }

    pub fn signal(&self, name: &str) {
        self.processes().iter().for_each(|pid| process::signal(*pid, name));
    }

    pub fn processes(&self) -> Vec<u32> {
        let main = self.keeper.pid();
        std::iter::once(main).chain(process::children_of(main)).collect()
    }

    /// Starts the server again on the same folder after it was killed.
    pub fn restart(&mut self) {
        self.keeper.leave();
        self.keeper = launch(&self.folder, &self.settings);
    }
}

fn launch(folder: &Path, settings: &[String]) -> Keeper {
    let mut program = vec![binary("postgres").into(), "-D".into(), folder.join("data").into()];
    program.extend(["-k".into(), folder.into(), "-c".into(), "listen_addresses=".into()]);
    program.extend(settings.iter().flat_map(|setting| ["-c".into(), setting.into()]));
    Keeper::start(as_owner(folder, Path::new("sh")), folder, "QUIT", program, || {
        let mut ready = Command::new(binary("pg_isready"));
        ready.args(["-q", "-U", "fencing", "-d", "postgres", "-h"]).arg(folder);
        ready.status().expect("pg_isready runs").success()
    })
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

/// PostgreSQL refuses to run as root: the users that it may run as instead.
const USERS: [&str; 2] = ["postgres", "nobody"];

fn as_owner(folder: &Path, program: &Path) -> Command {
    let mut command = match instead_of_root(&USERS) {
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

const POOLER_PORT: u16 = 6432;

/// A private pgbouncer in transaction mode: each transaction gets any of its few connections; no session outlasts it.
pub struct PgBouncer {
    folder: PathBuf,
    _keeper: Keeper,
}

impl PgBouncer {
    /// Starts one with so many connections to each database of this server.
    pub fn before(server: &PostgresServer, connections: u32) -> PgBouncer {
        let folder = own_folder("fencing-pg", &USERS);
        let settings = format!(
            "[databases]\n* = host={} user=fencing\n[pgbouncer]\nlisten_addr =\n\
             listen_port = {POOLER_PORT}\nunix_socket_dir = {}\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = {connections}\nmax_client_conn = 300\n\
             ignore_startup_parameters = extra_float_digits\n",
            server.folder.display(),
            folder.display(),
        );
        let file = folder.join("pgbouncer.ini");
        std::fs::write(&file, settings).expect("a file");
        let pooler = first_of(["/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer", "/usr/bin/pgbouncer"]);
        let program = vec![pooler.into(), "-q".into(), file.into()];
        let socket = folder.join(format!(".s.PGSQL.{POOLER_PORT}"));
        let shell = as_owner(&folder, Path::new("sh"));
        let keeper = Keeper::start(shell, &folder, "KILL", program, || UnixStream::connect(&socket).is_ok());
        PgBouncer { folder, _keeper: keeper }
    }

    pub fn on(&self, database: &str) -> PgConnectOptions {
        let options = PgConnectOptions::new().socket(&self.folder).port(POOLER_PORT);
        options.username("fencing").database(database)
    }
}
