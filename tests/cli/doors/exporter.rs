//! `fencing exporter` tells how the nodes stand, at the moment when it is asked.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use super::client::{ask, get};
use support::cli::{end, fencing, finish, five, run, until};
use support::process;
use support::redis::{self, RedisServer};

struct Exporter {
    child: Option<Child>,
    address: SocketAddr,
}

impl Exporter {
    fn start(servers: &[RedisServer]) -> Exporter {
        let mut command = fencing(servers);
        command.args(["exporter", "--listen", "127.0.0.1:0", "--node-budget", "500ms"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let line = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        let address = line.strip_prefix("status on http://").expect(&line).parse().unwrap();
        Exporter { child: Some(child), address }
    }

    fn metrics(&self) -> String {
        get(self.address, "/metrics").text().to_owned()
    }

    /// A gauge's value for each node, in the order of the list.
    fn of_nodes(&self, servers: &[RedisServer], gauge: &str) -> Vec<String> {
        let text = self.metrics();
        let value = |server: &RedisServer| {
            let node = server.url().trim_start_matches("redis://").to_owned();
            let mut lines = text.lines().filter(|line| line.starts_with(&format!("{gauge}{{")));
            let line = lines.find(|line| line.contains(&format!("node=\"{node}\"")));
            let line = line.unwrap_or_else(|| panic!("{gauge} of {node} in {text}"));
            assert!(line.contains("namespace=\"fencing\""), "{line}");
            line.rsplit(' ').next().unwrap().to_owned()
        };
        servers.iter().map(value).collect()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn nodes_that_are_new_down_hung_or_flushed_are_seen() {
    let mut servers = redis::five();
    let exporter = Exporter::start(&servers);
    // Nobody has used them yet.
    assert_eq!(exporter.of_nodes(&servers, "fencing_node_admitted"), ["0"; 5]);
    assert_eq!(exporter.of_nodes(&servers, "fencing_node_reachable"), ["1"; 5]);
    assert_eq!(exporter.of_nodes(&servers, "fencing_node_era"), ["NaN"; 5]);
    assert_eq!(get(exporter.address, "/readyz").status, 503);

    assert_eq!(finish(run(&servers, &["--ttl", "6s"], "sleep 0.2")).code, Some(0));
    until("all five are admitted and grant", || {
        exporter.of_nodes(&servers, "fencing_node_granting") == ["1"; 5]
    });
    assert!(exporter.metrics().contains("fencing_nodes_granting{namespace=\"fencing\"} 5\n"));
    assert!(exporter.metrics().contains("fencing_nodes_needed{namespace=\"fencing\"} 3\n"));
    // A node that was brought back a moment late has counted nothing yet.
    until("each has counted", || {
        finish(run(&servers, &["--ttl", "6s"], "true")).code == Some(0)
            && exporter.of_nodes(&servers, "fencing_node_counts") == ["1"; 5]
    });
    assert_eq!(get(exporter.address, "/readyz").status, 200);

    servers[0].kill();
    servers[1].signal("STOP");
    servers[2].cli(&["FLUSHALL"]);
    until("one is down, one hangs, one has forgotten", || {
        exporter.of_nodes(&servers, "fencing_node_reachable") == ["0", "0", "1", "1", "1"]
            && exporter.of_nodes(&servers, "fencing_node_admitted") == ["0", "0", "0", "1", "1"]
    });
    assert_eq!(exporter.of_nodes(&servers, "fencing_node_era")[..3], ["NaN"; 3]);
    assert_eq!(exporter.of_nodes(&servers, "fencing_node_quarantine_seconds")[..2], ["NaN"; 2]);
    assert!(exporter.metrics().contains("fencing_nodes_granting{namespace=\"fencing\"} 2\n"));
    let ready = get(exporter.address, "/readyz");
    assert_eq!((ready.status, ready.text()), (503, "no quorum\n"));
    servers[1].signal("CONT");
}

#[test]
fn it_has_its_three_pages_and_ends_at_a_signal() {
    let servers = five();
    let mut exporter = Exporter::start(&servers);
    assert_eq!(get(exporter.address, "/livez").status, 200);
    assert_eq!(get(exporter.address, "/openapi.yaml").status, 404);
    assert_eq!(ask(exporter.address, "POST", "/metrics", &[], "").status, 405);
    let child = exporter.child.take().unwrap();
    process::signal(child.id(), "TERM");
    assert_eq!(end(child).code, Some(0));
}

#[test]
fn a_list_that_no_client_could_use_is_wrong_usage() {
    let mut command = fencing(&[]);
    command.env("FENCING_REDIS", "redis://a,redis://a").args(["exporter"]);
    let ended = finish(command);
    assert_eq!(ended.code, Some(64), "{}", ended.stderr);
}
