//! The client in Python, against a real service.

use std::path::{Path, PathBuf};

use super::*;

fn client() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/python")
}

#[tokio::test]
async fn the_client_in_python_keeps_its_promises() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("files.db");
    let migrated = support::cli::ask(&format!("sqlite:{}", database.display()), "db migrate");
    assert_eq!(migrated.code, Some(0), "{migrated:?}");
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-B", "-m", "unittest", "discover", "-s", "tests"]).current_dir(client());
    python.env("PYTHONPATH", "src").env("FENCING_TEST_DATABASE", database);
    let ended = described::tested(python).await;
    assert!(ended.stderr.contains("Ran 14 tests"), "{}", ended.stderr);
}

#[test]
fn the_readme_of_the_client_shows_a_refusal() {
    let (servers, folder) = (five(), tempfile::tempdir().unwrap());
    let door = Door::serve(&servers, "");
    let database = format!("sqlite:{}", folder.path().join("data.db").display());
    assert_eq!(support::cli::ask(&database, "db migrate").code, Some(0));
    let readme = std::fs::read_to_string(client().join("README.md")).unwrap();
    let program = readme.split("```python\n").find(|part| part.starts_with("import sqlite3")).unwrap();
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-B", "-c", program.split("```").next().unwrap()]).current_dir(folder.path());
    python.env("PYTHONPATH", client().canonicalize().unwrap().join("src"));
    python.env("FENCING_URL", format!("http://{}", door.requests));
    let printed = finish(support::cli::piped(python)).printed();
    assert!(printed.contains("is stale"), "{printed}");
}

#[test]
fn the_package_of_the_client_builds() {
    let folder = tempfile::tempdir().unwrap();
    // What it builds is not left in the sources.
    let copied = Command::new("cp").arg("-r").arg(client()).arg(folder.path().join("client")).status().unwrap();
    assert!(copied.success());
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", "from setuptools import build_meta; print(build_meta.build_wheel('.'))"]);
    python.current_dir(folder.path().join("client"));
    let ended = finish(support::cli::piped(python));
    assert!(ended.stdout.contains("fencing_client-0.1.0-py3-none-any.whl"), "{ended:?}");
}
