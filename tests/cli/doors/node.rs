//! The client in Node.js, against a real service.

use std::path::{Path, PathBuf};

use support::postgres::PostgresServer;

use super::described::{self, Recorder};
use super::*;

fn client() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/node")
}

#[tokio::test]
async fn the_client_in_node_keeps_its_promises() {
    let (servers, keys) = (five(), tempfile::tempdir().unwrap());
    let door = described::serve(&servers, keys.path());
    let recorder = Recorder::before(door.requests);
    let server = PostgresServer::start();
    let database = server.database().await;
    let (folder, name) = (database.get_socket().unwrap().display(), database.get_database().unwrap());
    support::cli::ask(&format!("postgres:///{name}?host={folder}&user=fencing"), "db migrate").is(0);
    let mut node = Command::new("node");
    node.args(["--test", "test/"]).current_dir(client());
    // Where Debian has `pg`, and where tests/run puts it.
    let own = client().join("../../target/clients/node_modules").canonicalize().unwrap_or_default();
    node.env("NODE_PATH", format!("/usr/share/nodejs:{}", own.display()));
    node.env("FENCING_URL", format!("http://{}", recorder.address)).env("FENCING_CLIENT_TOKEN", "writer");
    node.env("FENCING_SERVE_PID", door.process.pid().to_string()).env("FENCING_SERVE_STATUS", door.status.to_string());
    node.env("PGHOST", folder.to_string()).env("PGDATABASE", name);
    let ended = finish(support::cli::piped(node));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("# pass 11\n"), "{ended:?}");
    recorder.is_described();
}

#[test]
fn the_package_of_the_client_in_node_packs() {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--dry-run", "--json"]).current_dir(client());
    let packed = finish(support::cli::piped(npm));
    for file in ["index.js", "index.d.ts", "README.md"] {
        assert!(packed.stdout.contains(file), "{packed:?}");
    }
}
