//! TLS to a database whose certificate nobody but itself has signed.

use std::process::Command;

use support::cli::ask;
use support::clients::{certify, output};
use support::mariadb::MariadbServer;
use support::postgres::PostgresServer;

/// An address of this machine that no other test has.
fn address() -> String {
    let process = std::process::id();
    format!("127.{}.{}.{}", 101 + (process >> 16) % 100, process >> 8 & 255, process & 255)
}

#[tokio::test]
async fn postgresql_is_reached_over_tls() {
    let (address, folder) = (address(), tempfile::tempdir().unwrap());
    certify(folder.path(), &format!("IP:{address}"));
    let server = PostgresServer::with(&[&format!("listen_addresses={address}")]);
    let database = server.database().await;
    let name = database.get_database().unwrap().to_owned();
    let psql = |statement: &str| output(server.client(&name).arg("-c").arg(statement)).unwrap();
    // The server reads nothing but files of its own.
    for file in ["key", "certificate"] {
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        let write = format!("umask 077; cat >{file}");
        psql(&format!("COPY (SELECT unnest(string_to_array($${text}$$, E'\\n'))) TO PROGRAM '{write}'"));
        psql(&format!("ALTER SYSTEM SET ssl_{}_file = '{file}'", &file[..file.len().min(4)]));
    }
    psql("ALTER SYSTEM SET ssl = on");
    psql("SELECT pg_reload_conf()");

    let url = |mode: &str| format!("postgres://fencing@{address}/{name}?sslmode={mode}");
    ask(&url("require"), "db migrate").is(0);
    let known = format!("verify-full&sslrootcert={}/certificate", folder.path().display());
    ask(&url(&known), "db marks").is(0);
    ask(&url("verify-full"), "db marks").says(69, "certificate");
}

#[test]
fn mariadb_is_reached_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path(), "IP:127.0.0.1");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let open = Command::new("chmod").args(["-R", "a+rX", &file("")]).status().unwrap();
    assert!(open.success());
    let (key, certificate) = (file("key"), file("certificate"));
    let settings = [format!("ssl-key={key}"), format!("ssl-cert={certificate}")];
    let server = MariadbServer::with(&[&settings[0], &settings[1]]);
    let create = "CREATE DATABASE tls; SELECT @@socket";
    let socket = output(server.client("").arg("-e").arg(create)).unwrap();
    let url = format!("mysql://root@localhost/tls?socket={}&ssl-mode=REQUIRED", socket.trim());
    ask(&url, "db migrate").is(0);
}
