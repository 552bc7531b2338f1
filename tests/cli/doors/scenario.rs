//! Kleppmann's scenario through both doors, by curl and Python alone: the lock service over HTTP on five
//! nodes of which one is killed, and the proxy before a service that knows nothing of tokens.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::client::get;
use super::{Door, proxy};
use support::cli::{Ended, finish, five};

fn example(name: &str) -> Command {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    let mut command = Command::new("python3");
    command.arg(path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn curl(arguments: &[&str]) -> Ended {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--write-out", "\n%{http_code}"]).args(arguments);
    finish({
        curl.stdout(Stdio::piped()).stderr(Stdio::piped());
        curl
    })
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_late_write_of_a_client_that_slept_is_refused() {
    let mut servers = five();
    let serve = Door::serve(&servers, &[]);
    servers[0].kill();
    let mut files = Killed(example("behind_proxy.py").arg("127.0.0.1:0").spawn().unwrap());
    let mut said = String::new();
    BufReader::new(files.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let upstream = said.trim().strip_prefix("files on ").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let marks = format!("sqlite:{}", folder.path().join("marks.db").display());
    let mut command = proxy(upstream);
    command.args(["--marks", &marks, "--clean-start"]);
    let door = Door::start(command);
    let file = format!("http://{}/files/report", door.requests);
    let lock = format!("http://{}", serve.requests);

    // Client 1 gets its lease, and falls asleep: nothing renews it.
    let asked = format!("{lock}/leases/files/report");
    let first = curl(&["--json", r#"{"ttl_ms": 1000}"#, &asked]);
    let (lease, status) = first.stdout.rsplit_once('\n').unwrap();
    assert_eq!(status, "201", "{first:?}");
    let lease: Value = serde_json::from_str(lease).unwrap();
    let token = lease["token"].as_u64().unwrap();

    // Client 2 waits until that lease has ended, and writes.
    let mut client = example("lease_client.py");
    client.args([&*lock, &*file, "of client 2"]);
    let second = finish(client);
    assert_eq!((second.code, second.stderr.as_str()), (Some(0), ""));
    assert!(second.stdout.trim().parse::<u64>().unwrap() > token, "{second:?}");

    // Client 1 wakes, and writes.
    let header = format!("Fencing-Token: {token}");
    let late = curl(&["-X", "PUT", "-H", &header, "-d", "of client 1", &file]);
    assert!(
        late.stdout.contains("urn:fencing:stale") && late.stdout.ends_with("\n412"),
        "{late:?}"
    );
    let renewed = format!("{lock}/leases/{}", lease["lease_id"].as_str().unwrap());
    assert!(curl(&["-X", "PUT", &renewed]).stdout.ends_with("\n404"));
    assert_eq!(get(door.requests, "/files/report").text(), "of client 2");
    // Without the proxy, the service would have taken it.
    let bare = format!("{upstream}/files/report");
    assert!(
        curl(&["-X", "PUT", "-H", &header, "-d", "of client 1", &bare]).stdout.ends_with("204")
    );
    assert_eq!(get(door.requests, "/files/report").text(), "of client 1");
}
