//! The client in Node.js, against a real service.

use std::path::{Path, PathBuf};

use super::*;

fn client() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/node")
}

#[tokio::test]
async fn the_client_in_node_keeps_its_promises() {
    let mut node = Command::new("node");
    node.args(["--test", "test/"]).current_dir(client());
    // Where Debian has `pg`, and where tests/run puts it.
    let own = client().join("../../target/clients/node_modules").canonicalize().unwrap_or_default();
    node.env("NODE_PATH", format!("/usr/share/nodejs:{}", own.display()));
    let ended = described::tested(node).await;
    assert!(ended.stdout.contains("# pass 11\n"), "{ended:?}");
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
