//! `fencing exporter` tells how the nodes stand, at the moment when it is asked.

use support::redis;

use super::*;

fn exporter(servers: &[RedisServer]) -> Door {
    let mut command = fencing(servers, "exporter --listen 127.0.0.1:0 --node-budget 5s");
    command.stderr(Stdio::null());
    let mut process = Running::start(command);
    let status = process.until("status on http://").parse().unwrap();
    Door { process, requests: status, status }
}

/// A gauge's value for each node in this page, in the order of the list.
fn of_nodes(text: &str, servers: &[RedisServer], gauge: &str) -> Vec<String> {
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

#[test]
fn nodes_that_are_new_down_hung_or_flushed_are_seen() {
    let mut servers = redis::five();
    let exporter = exporter(&servers);
    let grant = |text: &str, nodes: usize| {
        let line = format!("fencing_nodes_granting{{namespace=\"fencing\"}} {nodes}");
        text.lines().any(|found| found == line)
    };
    until("nobody has used them yet", || {
        let page = exporter.page("/metrics");
        let all = [("admitted", "0"), ("reachable", "1"), ("era", "NaN")];
        all.iter().all(|(gauge, value)| {
            let found = of_nodes(page.text(), &servers, &format!("fencing_node_{gauge}"));
            found.iter().all(|found| found == value)
        })
    });
    assert_eq!(exporter.page("/readyz").status, 503);

    // A node that was brought back a moment late has counted nothing yet.
    until("all five are admitted, grant, and have counted", || {
        let is_done = finish(run(&servers, "--ttl 2s --node-budget 500ms", "true")).code == Some(0);
        let page = exporter.page("/metrics");
        is_done
            && of_nodes(page.text(), &servers, "fencing_node_granting") == ["1"; 5]
            && of_nodes(page.text(), &servers, "fencing_node_counts") == ["1"; 5]
            && grant(page.text(), 5)
            && exporter.page("/readyz").status == 200
    });
    assert_eq!(exporter.metric("fencing_nodes_needed{namespace=\"fencing\"}"), 3.0);

    servers[0].kill();
    servers[1].signal("STOP");
    servers[2].cli(&["FLUSHALL"]);
    until("one is down, one hangs, one has forgotten", || {
        let page = exporter.page("/metrics");
        let of_nodes = |gauge| of_nodes(page.text(), &servers, gauge);
        let ready = exporter.page("/readyz");
        of_nodes("fencing_node_reachable") == ["0", "0", "1", "1", "1"]
            && of_nodes("fencing_node_admitted") == ["0", "0", "0", "1", "1"]
            && of_nodes("fencing_node_quarantine_seconds")[..2] == ["NaN"; 2]
            && of_nodes("fencing_node_era")[..3] == ["NaN"; 3]
            && grant(page.text(), 2)
            && (ready.status, ready.text()) == (503, "no quorum\n")
    });
    servers[1].signal("CONT");

    assert_eq!(exporter.page("/livez").status, 200);
    assert_eq!(exporter.page("/openapi.yaml").status, 404);
    assert_eq!(exporter.ask("POST", "/metrics", &[], "").status, 405);
    exporter.process.signal("TERM");
    assert_eq!(exporter.process.ended().code, Some(0));
}
