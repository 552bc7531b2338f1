//! Tokens that `fencing serve` has signed, and others.

use std::fs;

use super::Door;
use super::client::{Answer, ask, get};
use super::upstream::Upstream;
use support::cli::{five, until};

fn write(door: &Door, path: &str, token: u64, signature: Option<&str>) -> Answer {
    let token = token.to_string();
    let mut headers = vec![("Fencing-Token", token.as_str())];
    headers.extend(signature.map(|signature| ("Fencing-Signature", signature)));
    ask(door.requests, "PUT", path, &headers, "")
}

#[test]
fn a_token_that_nobody_has_signed_raises_no_mark() {
    let (servers, upstream) = (five(), Upstream::start());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let (old, new) = ("0a".repeat(32), "0b".repeat(32));
    fs::write(&path, format!("old={old}\n")).unwrap();
    let keys = ["--signing-keys", path.to_str().unwrap()];
    let (serve, door) = (Door::serve(&servers, &keys), Door::proxy(&upstream, &keys));
    let lease = ask(serve.requests, "POST", "/leases/files/a", &[], "");
    let (token, signature) = (lease.json()["token"].as_u64().unwrap(), lease.json());
    let signature = signature["signature"].as_str().unwrap();
    assert_eq!(lease.header("fencing-signature"), Some(signature));

    let largest = 999_999_999_999_999;
    for (path, token, signature) in [
        ("/files/a", token, None),
        ("/files/a", largest, None),
        ("/files/a", largest, Some(signature)),
        ("/files/b", token, Some(signature)),
        ("/files/a", token, Some("old:00")),
    ] {
        let refused = write(&door, path, token, signature);
        assert_eq!(
            (refused.status, &refused.json()["type"]),
            (400, &"urn:fencing:not-issued".into())
        );
    }
    let sequencer = format!("{largest} files/a");
    let headers = [("Fencing-Sequencer", sequencer.as_str()), ("Fencing-Signature", signature)];
    assert_eq!(ask(door.requests, "PUT", "/files/a", &headers, "").status, 400);
    assert_eq!(upstream.events(), Vec::<String>::new());
    // No mark is in its way.
    assert_eq!(write(&door, "/files/a", token, Some(signature)).status, 200);
    assert_eq!(get(door.requests, "/files/a").status, 200);

    // The new key signs, and the old one still verifies.
    fs::write(&path, format!("new={new}\nold={old}\n")).unwrap();
    until("the new key signs", || {
        let lease = ask(serve.requests, "POST", "/leases/files/c", &[], r#"{"wait_ms": 5000}"#);
        let id = lease.json()["lease_id"].as_str().unwrap().to_owned();
        ask(serve.requests, "DELETE", &format!("/leases/{id}"), &[], "");
        let (token, signature) = (lease.json()["token"].as_u64().unwrap(), lease.json());
        let signature = signature["signature"].as_str().unwrap();
        signature.starts_with("new:")
            && write(&door, "/files/c", token, Some(signature)).status == 200
    });
    assert_eq!(write(&door, "/files/a", token, Some(signature)).status, 200);
    // And no longer, though the file says that it was not changed.
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, format!("new={new}\n")).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    until("the old key is out", || write(&door, "/files/a", token, Some(signature)).status == 400);
}

#[test]
fn a_key_file_that_does_not_answer_holds_nothing_up() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    fs::write(&path, format!("old={}\n", "0a".repeat(32))).unwrap();
    let door = Door::proxy(&upstream, &["--signing-keys", path.to_str().unwrap()]);
    fs::remove_file(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    // For longer than the pause between two looks at the file.
    let end = std::time::Instant::now() + std::time::Duration::from_millis(1500);
    while std::time::Instant::now() < end {
        assert_eq!(write(&door, "/files/a", 34, Some("old:00")).status, 400);
    }
    assert_eq!(get(door.status, "/livez").status, 200);
}
