//! A connection for each request takes no port for longer than the request. On loopback the system
//! takes ports out of TIME-WAIT again, so this runs in a network namespace that does not.

use super::*;

const CHILD: &str = "FENCING_IN_NAMESPACE";
/// Far fewer ports than writes.
const NAMESPACE: &str = "ip link set lo up && cd /proc/sys/net/ipv4 && echo 0 >tcp_tw_reuse \
                         && echo 40000 40063 >ip_local_port_range && exec \"$@\"";

#[test]
fn writes_use_up_no_ports() {
    if std::env::var_os(CHILD).is_some() {
        return send();
    }
    let mut child = Command::new("unshare");
    child.args(["--user", "--map-root-user", "--net", "sh", "-ec", NAMESPACE, "sh"]);
    child.arg(std::env::current_exe().unwrap()).args(["--exact", "--nocapture"]);
    child.arg("doors::time_wait::writes_use_up_no_ports").env(CHILD, "1");
    let output = child.output().expect("unshare");
    assert!(output.status.success(), "{output:?}");
}

fn send() {
    let (_upstream, door) = proxied("");
    let mut client = Client::connect(door.requests);
    let headers = [("Fencing-Token", "34"), ("Content-Length", "1")];
    // The service closes its connection, or leaves that to the proxy.
    for path in ["/files/a", "/kept/a"] {
        for _ in 0..200 {
            client.send(head("PUT", path, &headers) + "x");
            assert_eq!(client.answer().status, 200);
        }
    }
}
