//! A private pgbouncer before a private PostgreSQL: each transaction gets any of its few
//! connections, and no session lasts for longer than that.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;

use crate::postgres::{PostgresServer, as_owner, own_folder};

const PORT: u16 = 6432;

/// Stops the pooler and removes its folder at the end of the input, which comes however the
/// test process ends.
const KEEPER: &str = r#"
trap '' HUP INT TERM
folder=$1; shift
"$@" </dev/null & pooler=$!
cat >/dev/null
kill -KILL $pooler; wait $pooler
cd /; rm -rf "$folder""#;

/// One pooler, in transaction mode.
pub struct PgBouncer {
    folder: PathBuf,
    keeper: Option<Child>,
}

impl PgBouncer {
    /// Starts one with so many connections to each database of this server.
    pub fn before(server: &PostgresServer, connections: u32) -> PgBouncer {
        let folder = own_folder();
        let settings = format!(
            "[databases]\n* = host={} user=fencing\n[pgbouncer]\nlisten_addr =\n\
             listen_port = {PORT}\nunix_socket_dir = {}\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = {connections}\nmax_client_conn = 300\n\
             ignore_startup_parameters = extra_float_digits\n",
            server.folder().display(),
            folder.display(),
        );
        let file = folder.join("pgbouncer.ini");
        std::fs::write(&file, settings).expect("a file");
        let mut keeper = as_owner(&folder, Path::new("sh"));
        keeper.args(["-c", KEEPER, "sh"]).arg(&folder).arg(binary()).arg("-q").arg(&file);
        let log = std::fs::File::create(folder.join("log")).expect("a file");
        keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        let keeper = Some(keeper.spawn().expect("sh runs"));
        let end = Instant::now() + Duration::from_secs(30);
        while UnixStream::connect(folder.join(format!(".s.PGSQL.{PORT}"))).is_err() {
            let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < end, "pgbouncer does not answer:\n{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
        PgBouncer { folder, keeper }
    }

    /// The database of this name, through the pooler.
    pub fn on(&self, database: &str) -> PgConnectOptions {
        let options = PgConnectOptions::new().socket(&self.folder).port(PORT);
        options.username("fencing").database(database)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }
}

/// Where it is that a path for users may not show.
fn binary() -> &'static Path {
    let places = ["/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer", "/usr/bin/pgbouncer"];
    let mut places = places.into_iter().map(Path::new);
    places.find(|path| path.exists()).unwrap_or(Path::new("pgbouncer"))
}
