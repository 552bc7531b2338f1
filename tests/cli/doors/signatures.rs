//! Tokens that `fencing serve` has signed, and others.

use std::fs;
use std::time::Instant;

use super::seals::Keys;
use super::*;

/// A lock service and a proxy with one file of keys.
struct Signing {
    _servers: Vec<RedisServer>,
    keys: Keys,
    serve: Door,
    upstream: Upstream,
    door: Door,
}

impl Signing {
    fn start(options: &str) -> Signing {
        let (keys, servers) = (Keys::new(), five());
        let serve = keys.serve(&servers);
        let (upstream, door) = proxied(&format!("--signing-keys {} {options}", keys.file.display()));
        Signing { _servers: servers, keys, serve, upstream, door }
    }

    /// The token and the signature of a lease, which is released.
    fn lease(&self, name: &str) -> (u64, String) {
        let lease = self.serve.acquire(name, r#"{"wait_ms": 20000}"#);
        let signature = lease.header("fencing-signature").unwrap();
        assert_eq!(lease.json()["signature"], signature);
        self.serve.of(&lease, "DELETE");
        (lease.token(), signature.to_owned())
    }

    fn write(&self, path: &str, token: u64, signature: Option<&str>) -> Answer {
        let signature = signature.map(|signature| ("Fencing-Signature", signature));
        let token = token.to_string();
        let headers = [Some(("Fencing-Token", &*token)), signature];
        let headers: Vec<_> = headers.into_iter().flatten().collect();
        self.door.ask("PUT", path, &headers, "")
    }
}

#[test]
fn a_token_that_nobody_has_signed_raises_no_mark() {
    let it = Signing::start("");
    let (token, signature) = it.lease("files/a");
    let signature = signature.as_str();
    let largest = 999_999_999_999_999;
    for (path, token, signature) in [
        ("/files/a", token, None),
        ("/files/a", largest, None),
        ("/files/a", largest, Some(signature)),
        ("/files/b", token, Some(signature)),
        ("/files/a", token, Some("one:00")),
    ] {
        it.write(path, token, signature).is(400, "not-issued");
    }
    let sequencer = format!("{largest} files/a");
    let headers = [("Fencing-Sequencer", sequencer.as_str()), ("Fencing-Signature", signature)];
    assert_eq!(it.door.ask("PUT", "/files/a", &headers, "").status, 400);
    assert_eq!(it.upstream.events(), Vec::<String>::new());
    // No mark is in its way.
    assert_eq!(it.write("/files/a", token, Some(signature)).status, 200);
    assert_eq!(it.door.get("/files/a").status, 200);

    // The new key signs, and the old one still verifies.
    it.keys.write(&["new", "one"]);
    until("the new key signs", || {
        let (token, signature) = it.lease("files/c");
        signature.starts_with("new:") && it.write("/files/c", token, Some(&signature)).status == 200
    });
    assert_eq!(it.write("/files/a", token, Some(signature)).status, 200);
    // And no longer, though the file says that it was not changed.
    let file = &it.keys.file;
    let modified = fs::metadata(file).unwrap().modified().unwrap();
    it.keys.write(&["new"]);
    fs::File::options().write(true).open(file).unwrap().set_modified(modified).unwrap();
    until("the old key is out", || it.write("/files/a", token, Some(signature)).status == 400);

    // A file that does not answer holds nothing up, for longer than the pause between two looks at it.
    fs::remove_file(file).unwrap();
    assert!(Command::new("mkfifo").arg(file).status().unwrap().success());
    let end = Instant::now() + Duration::from_millis(1500);
    while Instant::now() < end {
        assert_eq!(it.write("/files/a", 34, Some("new:00")).status, 400);
    }
    assert_eq!(it.door.page("/livez").status, 200);
}

#[test]
fn each_of_several_tokens_is_signed() {
    let pattern = "/transfer/{from}/{to}=accounts/{from},accounts/{to}";
    let it = Signing::start(&format!("--resource-from {pattern}"));
    let [(one, first), (two, second)] = ["accounts/7", "accounts/8"].map(|name| {
        let (token, signature) = it.lease(name);
        (format!("{token} {name}"), signature)
    });
    let send = |second: &str, signatures: &[&str]| {
        let sequencers = [one.as_str(), second].map(|value| ("Fencing-Sequencer", value));
        let signatures = signatures.iter().map(|value| ("Fencing-Signature", *value));
        let headers: Vec<_> = sequencers.into_iter().chain(signatures).collect();
        it.door.ask("POST", "/transfer/7/8", &headers, "x").status
    };
    assert_eq!(send(&two, &[]), 400);
    assert_eq!(send(&two, &[&first]), 400);
    assert_eq!(send(&two, &[&first, &first]), 400);
    assert_eq!(send("999999999999999 accounts/8", &[&first, &second]), 400);
    assert_eq!(it.upstream.events(), Vec::<String>::new());
    assert_eq!(send(&two, &[&first, &second]), 200);
    assert_eq!(send(&two, &[&second, &first]), 200);
}
