//! TLS before `fencing serve` and `fencing proxy`.

use std::path::Path;

use support::clients::{certify, output};
use tempfile::TempDir;

use super::*;

fn curl(folder: &Path, options: &str, url: &str) -> Result<String, String> {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--max-time", "60"]).args(options.split_whitespace()).arg(url).current_dir(folder);
    output(&mut curl)
}

/// A folder with a certificate and its key, and the options of a door that has them.
fn certified() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path(), "IP:127.0.0.1");
    let path = folder.path().display();
    let tls = format!("--tls-cert {path}/certificate --tls-key {path}/key");
    (folder, tls)
}

/// Which certificate somebody else has made, in a folder of its own.
fn another(folder: &Path) -> String {
    let other = folder.join("other");
    std::fs::create_dir(&other).unwrap();
    certify(&other, "IP:127.0.0.1");
    "--cacert certificate --cert other/certificate --key other/key".to_owned()
}

#[test]
fn leases_are_granted_over_tls() {
    let ((folder, tls), servers) = (certified(), five());
    let folder = folder.path();
    let door = Door::serve(&servers, &tls);
    let url = format!("https://{}/leases/a", door.requests);
    for version in ["--http1.1", "--http2"] {
        let lease = curl(folder, &format!("--cacert certificate {version} -X POST"), &url).unwrap();
        assert!(lease.contains("lease_id") || lease.contains("urn:fencing:held"), "{lease}");
    }
    curl(folder, "-X POST", &url).unwrap_err();
    // Plain text gets nothing.
    let mut plain = Client::connect(door.requests);
    plain.send("GET /openapi.yaml HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!String::from_utf8_lossy(&plain.rest()).contains("openapi"));

    // A certificate that was changed is used without a start.
    certify(folder, "IP:127.0.0.1");
    let page = format!("https://{}/openapi.yaml", door.requests);
    until("it has the new certificate", || curl(folder, "--cacert certificate", &page).is_ok());
}

#[test]
fn a_client_without_a_certificate_is_not_heard() {
    let ((folder, tls), servers) = (certified(), five());
    let folder = folder.path();
    let tls = format!("{tls} --client-ca {}/certificate", folder.display());
    let (_upstream, proxy) = proxied(&tls);
    let foreign = another(folder);
    for (door, path) in [(&Door::serve(&servers, &tls), "openapi.yaml"), (&proxy, "files/a")] {
        let url = format!("https://{}/{path}", door.requests);
        curl(folder, "--cacert certificate", &url).unwrap_err();
        curl(folder, &foreign, &url).unwrap_err();
        curl(folder, "--cacert certificate --cert certificate --key key", &url).unwrap();
    }
}

#[test]
fn silent_connections_are_closed_for_others() {
    let ((folder, tls), servers) = (certified(), five());
    let folder = folder.path();
    let door = Door::serve(&servers, &format!("{tls} --connections 4 --header-timeout 10m"));
    let _silent: Vec<Client> = (0..40).map(|_| Client::connect(door.requests)).collect();
    let url = format!("https://{}/openapi.yaml", door.requests);
    curl(folder, "--cacert certificate", &url).unwrap();
}

#[test]
fn who_listens_to_a_network_without_tls_is_warned() {
    let warned = |options: &str| {
        let mut command = fencing("memory:", &format!("serve --listen 0.0.0.0:0 --status 127.0.0.1:0 {options}"));
        command.stderr(Stdio::piped());
        let mut process = Running::start(command);
        process.until("status on ");
        process.signal("TERM");
        process.ended().stderr
    };
    let said = warned("");
    assert!(said.contains("lock everything") && said.contains("plain text"), "{said}");
    let (folder, tls) = certified();
    let path = folder.path().display();
    let said = warned(&format!("{tls} --client-ca {path}/certificate"));
    assert!(!said.contains("warning"), "{said}");
    support::cli::ask("memory:", &format!("serve --tls-cert {path}/certificate")).says(64, "--tls-key");
    support::cli::ask("memory:", &format!("serve --tls-cert {path}/key --tls-key {path}/key"))
        .says(64, "no certificate");
}
