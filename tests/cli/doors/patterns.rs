//! Resources that patterns of the path name.

use std::fs;

use support::cli::{finish, five};

use super::client::{Answer, ask, put};
use super::upstream::Upstream;
use super::{Door, proxy};

const PATTERNS: [&str; 4] = [
    "--resource-from",
    "/transfer/{from}/{to}=accounts/{from},accounts/{to}",
    "--resource-from",
    "/accounts/{id}/**=accounts/{id}",
];

fn transfer(door: &Door, path: &str, sequencers: &[&str], others: &[(&str, &str)]) -> Answer {
    let mut headers: Vec<_> =
        sequencers.iter().map(|value| ("Fencing-Sequencer", *value)).collect();
    headers.extend(others);
    ask(door.requests, "POST", path, &headers, "x")
}

#[test]
fn a_part_of_the_path_names_the_resource() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &PATTERNS);
    assert_eq!(put(door.requests, "/accounts/7/owner", 34, "").status, 200);
    // Another path below the same account.
    for path in ["/accounts/7", "/accounts/7/limits/daily", "/accounts/%37/owner"] {
        assert_eq!(put(door.requests, path, 33, "").status, 412, "{path}");
    }
    assert_eq!(put(door.requests, "/accounts/8/owner", 33, "").status, 200);
    // No pattern, and what has a second name.
    for path in ["/other/7", "/Accounts/7", "/accounts//7", "/accounts/8/../7", "/accounts%2f7"] {
        let refused = put(door.requests, path, 99, "");
        assert_eq!(refused.status, 400, "{path}: {refused:?}");
    }
    assert_eq!(ask(door.requests, "PUT", "/other/7", &[], "").status, 428);
    assert_eq!(upstream.events().len(), 4, "{:?}", upstream.events());
}

#[test]
fn a_request_about_two_resources_needs_the_tokens_of_both() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &PATTERNS);
    assert_eq!(put(door.requests, "/accounts/8/owner", 34, "").status, 200);
    let both = ["10 accounts/7", "34 accounts/8"];
    assert_eq!(transfer(&door, "/transfer/7/8", &both, &[]).status, 200);
    let stale = transfer(&door, "/transfer/7/8", &["11 accounts/7", "33 accounts/8"], &[]);
    assert_eq!(stale.status, 412, "{stale:?}");
    // Its mark was raised by the transfer.
    assert_eq!(put(door.requests, "/accounts/7/owner", 9, "").status, 412);
    for wrong in [
        &["40 accounts/7"][..],
        &["40 accounts/7", "40 accounts/9"],
        &["40 accounts/7", "40 accounts/8", "40 accounts/9"],
        &["40 accounts/7", "41 accounts/7"],
    ] {
        let refused = transfer(&door, "/transfer/7/8", wrong, &[]);
        assert_eq!(refused.status, 400, "{wrong:?}: {refused:?}");
    }
    let alone = transfer(&door, "/transfer/7/8", &[], &[("Fencing-Token", "40")]);
    assert_eq!(alone.status, 400, "{alone:?}");
    assert_eq!(transfer(&door, "/transfer/7/8", &[], &[]).status, 428);
    // From one to the same is one resource.
    assert_eq!(transfer(&door, "/transfer/7/7", &["20 accounts/7"], &[]).status, 200);
    assert_eq!(upstream.events().len(), 6, "{:?}", upstream.events());
}

/// Its service is at work on both until it has answered.
#[test]
fn both_resources_are_in_flight() {
    let upstream = Upstream::start();
    let patterns = ["--resource-from", "/slow/{from}/{to}=a/{from},a/{to}", "--limit", "200ms"];
    let rest = ["--resource-from", "/a/{id}=a/{id}"];
    let door = Door::proxy(&upstream, &[&patterns[..], &rest].concat());
    let address = door.requests;
    let slow = std::thread::spawn(move || {
        let headers = [("Fencing-Sequencer", "33 a/7"), ("Fencing-Sequencer", "33 a/8")];
        ask(address, "PUT", "/slow/7/8", &headers, "").status
    });
    upstream.until("begin PUT /slow/7/8");
    for path in ["/a/7", "/a/8"] {
        assert_eq!(put(door.requests, path, 34, "").status, 503, "{path}");
    }
    assert_eq!(put(door.requests, "/a/9", 34, "").status, 200);
    upstream.open();
    assert_eq!(slow.join().unwrap(), 200);
    assert_eq!(put(door.requests, "/a/8", 34, "").status, 200);
}

#[test]
fn each_of_several_tokens_is_signed() {
    let (servers, upstream) = (five(), Upstream::start());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    fs::write(&path, format!("own={}\n", "0a".repeat(32))).unwrap();
    let keys = ["--signing-keys", path.to_str().unwrap()];
    let serve = Door::serve(&servers, &keys);
    let door = Door::proxy(&upstream, &[&keys[..], &PATTERNS].concat());
    let lease = |resource: &str| {
        let lease = ask(serve.requests, "POST", &format!("/leases/{resource}"), &[], "").json();
        let token = lease["token"].as_u64().unwrap();
        (format!("{token} {resource}"), lease["signature"].as_str().unwrap().to_owned())
    };
    let ((one, first), (two, second)) = (lease("accounts/7"), lease("accounts/8"));
    let send = |sequencers: [&str; 2], signatures: &[&str]| {
        let others: Vec<_> = signatures.iter().map(|value| ("Fencing-Signature", *value)).collect();
        transfer(&door, "/transfer/7/8", &sequencers, &others).status
    };
    let forged = "999999999999999 accounts/8";
    assert_eq!(send([&one, &two], &[]), 400);
    assert_eq!(send([&one, &two], &[&first]), 400);
    assert_eq!(send([&one, &two], &[&first, &first]), 400);
    assert_eq!(send([&one, forged], &[&first, &second]), 400);
    assert_eq!(upstream.events(), Vec::<String>::new());
    assert_eq!(send([&one, &two], &[&first, &second]), 200);
}

#[test]
fn a_pattern_that_cannot_be_meant_is_wrong_usage() {
    for pattern in ["/a", "/{a}/{b}={a}{b}", "/a={id}", "a=b"] {
        let mut command = proxy("http://127.0.0.1:9");
        command.args(["--forget-marks-on-exit", "--resource-from", pattern]);
        command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        assert_eq!(finish(command).code, Some(64), "{pattern}");
    }
    let mut command = proxy("http://127.0.0.1:9");
    command.args(["--forget-marks-on-exit", "--resource-from", "/accounts/{name}={name}"]);
    command.args(["--resource-from", "/accounts/{id}=accounts/{id}"]);
    command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    finish(command).says(64, "another pattern matches the same paths");
}
