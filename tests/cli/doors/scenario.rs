//! Kleppmann's scenario through both doors, by curl and Python alone: the lock service over HTTP on five
//! nodes of which one is killed, and the proxy before a service that knows nothing of tokens.

use std::path::PathBuf;

use serde_json::Value;

use super::*;

fn example(name: &str, arguments: &[&str]) -> Command {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    let mut command = Command::new("python3");
    command.arg(path).args(arguments);
    command
}

fn curl(arguments: &[&str]) -> String {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--write-out", "\n%{http_code}"]).args(arguments);
    finish(curl).printed()
}

#[test]
fn the_late_write_of_a_client_that_slept_is_refused() {
    let (mut servers, serve) = served("");
    servers[0].kill();
    let mut files = Running::start(example("behind_proxy.py", &["127.0.0.1:0"]));
    let upstream = files.until("files on ");
    let folder = tempfile::tempdir().unwrap();
    let marks = format!("sqlite:{}", folder.path().join("marks.db").display());
    let door = Door::start(proxy(&upstream, &format!("--marks {marks} --clean-start")));
    let file = format!("http://{}/files/report", door.requests);
    let lock = format!("http://{}", serve.requests);

    // Client 1 gets its lease, and falls asleep: nothing renews it.
    let asked = format!("{lock}/leases/files/report");
    let first = curl(&["--json", r#"{"ttl_ms": 8000, "wait_ms": 20000}"#, &asked]);
    let (lease, status) = first.rsplit_once('\n').unwrap();
    assert_eq!(status, "201", "{first}");
    let lease: Value = serde_json::from_str(lease).unwrap();
    let token = lease["token"].as_u64().unwrap();

    // Client 2 waits until that lease has ended, and writes.
    let second = finish(example("lease_client.py", &[&lock, &file, "of client 2"]));
    assert!(second.number() > token);

    // Client 1 wakes, and writes.
    let header = format!("Fencing-Token: {token}");
    let write = |url: &str| curl(&["-X", "PUT", "-H", &header, "-d", "of client 1", url]);
    let late = write(&file);
    assert!(late.contains("urn:fencing:stale") && late.ends_with("\n412"), "{late}");
    let renewed = format!("{lock}/leases/{}", lease["lease_id"].as_str().unwrap());
    assert!(curl(&["-X", "PUT", &renewed]).ends_with("\n404"));
    assert_eq!(door.get("/files/report").text(), "of client 2");
    // Without the proxy, the service would have taken it.
    assert!(write(&format!("{upstream}/files/report")).ends_with("204"));
    assert_eq!(door.get("/files/report").text(), "of client 1");
}
