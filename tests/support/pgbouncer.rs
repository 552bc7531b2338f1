//! A private pgbouncer before a private PostgreSQL: each transaction gets any of its few
//! connections, and no session lasts for longer than that.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use sqlx::postgres::PgConnectOptions;

use crate::keeper::{Keeper, first_of, own_folder};
use crate::postgres::{PostgresServer, USERS, as_owner};

const PORT: u16 = 6432;

/// One pooler, in transaction mode.
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
             listen_port = {PORT}\nunix_socket_dir = {}\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = {connections}\nmax_client_conn = 300\n\
             ignore_startup_parameters = extra_float_digits\n",
            server.folder().display(),
            folder.display(),
        );
        let file = folder.join("pgbouncer.ini");
        std::fs::write(&file, settings).expect("a file");
        let pooler = first_of(["/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer", "/usr/bin/pgbouncer"]);
        let program = vec![pooler.into(), "-q".into(), file.into()];
        let socket = folder.join(format!(".s.PGSQL.{PORT}"));
        let shell = as_owner(&folder, Path::new("sh"));
        let keeper = Keeper::start(shell, &folder, "KILL", program, || UnixStream::connect(&socket).is_ok());
        PgBouncer { folder, _keeper: keeper }
    }

    /// The database of this name, through the pooler.
    pub fn on(&self, database: &str) -> PgConnectOptions {
        let options = PgConnectOptions::new().socket(&self.folder).port(PORT);
        options.username("fencing").database(database)
    }
}
