//! What the proxy passes on, and under which name.

use std::process::Command;

use super::client::{ask, get, put};
use super::upstream::Upstream;
use super::{Door, proxy};
use support::cli::finish;

#[test]
fn headers_of_the_connection_and_methods_in_disguise_are_taken_away() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &[]);
    let headers = [
        ("Connection", "X-Own"),
        ("X-Own", "1"),
        ("TE", "trailers"),
        ("Keep-Alive", "1"),
        ("Proxy-Authorization", "x"),
        ("Upgrade", "websocket"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("X-HTTP-Method", "DELETE"),
        ("X-Method-Override", "DELETE"),
        ("X_HTTP_Method_Override", "DELETE"),
        ("X.HTTP.Method.Override", "DELETE"),
        ("X-Original-URL", "/second"),
        ("X-Rewrite-URL", "/second"),
        ("Fencing_Token", "99"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("X-Other", "1"),
    ];
    let answer = ask(door.requests, "GET", "/files/a?b=c", &headers, "");
    assert_eq!(answer.status, 200);
    let seen = answer.text().to_lowercase();
    assert!(seen.starts_with("get /files/a?b=c http/1.1\r\n"), "{seen}");
    for header in
        ["host: test", "x-other: 1", "x-forwarded-for: 10.0.0.1, 127.0.0.1", "via: 1.1 fencing"]
    {
        assert!(seen.contains(&format!("\r\n{header}\r\n")), "{header}: {seen}");
    }
    for header in ["x-own", "te:", "keep-alive", "proxy-", "upgrade", "method", "second", "99"] {
        assert!(!seen.contains(header), "{header}: {seen}");
    }
    // The same on the way back.
    assert_eq!((answer.header("x-own"), answer.header("x-read")), (None, Some("0")));
    assert!(answer.header("via").is_some());
    let disguised = get(door.requests, "/files/a?_method=DELETE");
    assert_eq!(disguised.status, 400, "{disguised:?}");
    let disguised = ask(door.requests, "PROPFIND", "/files/a?_method=DELETE", &[], "");
    assert_eq!(disguised.status, 400, "{disguised:?}");
    assert_eq!(ask(door.requests, "TRACE", "/files/a", &[], "").status, 405);
    for (cause, count) in [("malformed", 2.0), ("method", 1.0)] {
        let counted = format!("fencing_proxy_refused_total{{cause=\"{cause}\"}}");
        assert_eq!(door.metric(&counted), count, "{cause}");
    }
}

#[test]
fn a_path_with_a_second_name_is_refused() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &[]);
    assert_eq!(put(door.requests, "/files/a", 34, "").status, 200);
    for path in [
        "/files//a",
        "/files/./a",
        "/files/b/../a",
        "/files/%2e/a",
        "/files/b/%2E%2e/a",
        "/files%2fa",
        "/files%5ca",
        "/files\\a",
        "/files/a;x",
        "/files/a%3Bx",
        "/files/a%3Fx",
        "/files/a%3f",
        "/files/a%23x",
        "/files/a%253Fx",
        "/files/a%00",
        "/files/%2561",
        "/files/%u0061",
        "/files/a%",
        "/files/a/",
        "//files/a",
    ] {
        let answer = put(door.requests, path, 33, "");
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
    }
    // The same name in another spelling, and as an absolute URI.
    assert_eq!(put(door.requests, "/files/%61", 33, "").status, 412);
    assert_eq!(put(door.requests, "http://other/files/a", 33, "").status, 412);
    assert_eq!(ask(door.requests, "PUT", "/files/a", &[], "").status, 428);
    assert_eq!(upstream.events().len(), 2, "{:?}", upstream.events());
}

#[test]
fn a_gateway_may_name_the_resource() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &["--resource-header", "x-resource"]);
    let write = |path: &str, token: &str, resources: &[&str]| {
        let mut headers = vec![("Fencing-Token", token)];
        headers.extend(resources.iter().map(|name| ("X-Resource", *name)));
        ask(door.requests, "PUT", path, &headers, "").status
    };
    assert_eq!(write("/v1/files/a", "34", &["files/a"]), 200);
    assert_eq!(write("/v2//a", "33", &["files/a"]), 412);
    assert_eq!(write("/v1/files/a", "33", &["files/b"]), 200);
    assert_eq!(write("/v1/files/a", "35", &[]), 400);
    assert_eq!(write("/v1/files/a", "35", &["files/a", "files/b"]), 400);
}

#[test]
fn a_second_resource_in_a_header_is_refused() {
    let upstream = Upstream::start();
    let door = Door::proxy(&upstream, &[]);
    let two =
        [("Fencing-Token", "34"), ("Destination", "http://test/files/a"), ("X-Resource", "b")];
    for method in ["MOVE", "COPY", "PUT"] {
        let answer = ask(door.requests, method, "/files/b", &two, "");
        assert_eq!((answer.status, upstream.events().len()), (400, 0), "{method}: {answer:?}");
        assert_eq!(answer.json()["type"], "urn:fencing:malformed");
    }
    let door = Door::proxy(&upstream, &["--resource-header", "x-resource"]);
    assert_eq!(ask(door.requests, "MOVE", "/files/b", &two, "").status, 200);
}

#[test]
fn a_quarantine_shorter_than_the_service_may_take_is_warned_of() {
    let said = |options: &[&str]| {
        // The address is no loopback of this machine: it ends at once.
        let mut command = proxy("http://127.0.0.1:1");
        command.args(["--forget-marks-on-exit", "--listen", "192.0.2.1:0"]).args(options);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let ended = finish(command);
        assert_eq!(ended.code, Some(71), "{ended:?}");
        ended.stderr.contains("warning: --quarantine")
    };
    assert!(said(&["--quarantine", "59s"]));
    assert!(!said(&["--quarantine", "60s"]));
    assert!(!said(&["--upstream-timeout", "2m"]));
    assert!(said(&["--upstream-timeout", "2m", "--quarantine", "90s"]));
}

#[test]
fn http2_passes_on_both_sides() {
    let upstream = Upstream::start();
    let inner = Door::proxy(&upstream, &[]);
    let mut outer = proxy(&format!("http://{}", inner.requests));
    outer.args(["--forget-marks-on-exit", "--clean-start", "--upstream-http2"]);
    let outer = Door::start(outer);
    let curl = |token: u64| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--http2-prior-knowledge", "--write-out"]);
        curl.arg("\n%{http_code} %{http_version}").args(["-X", "PUT", "-d", "body"]);
        curl.arg("-H").arg(format!("Fencing-Token: {token}"));
        curl.arg(format!("http://{}/files/a", outer.requests));
        curl.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let ended = finish(curl);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout
    };
    let passed = curl(34);
    assert!(passed.ends_with("\n200 2"), "{passed}");
    assert!(passed.contains("via: 2 fencing\r\nvia: 2 fencing"), "{passed}");
    // An answer before the end of the upload is an answer, each time.
    for _ in 0..50 {
        let refused = curl(33);
        assert!(refused.contains("urn:fencing:stale") && refused.ends_with("\n412 2"), "{refused}");
    }
    assert_eq!(inner.metric("fencing_admissions_total{layer=\"fence\",outcome=\"admitted\"}"), 1.0);
}

#[test]
fn marks_in_a_database_outlive_the_proxy() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().unwrap();
    let marks = format!("sqlite:{}", folder.path().join("marks.db").display());
    let start = || {
        let mut command = proxy(&upstream.url());
        command.args(["--marks", &marks, "--clean-start"]);
        Door::start(command)
    };
    let first = start();
    assert_eq!(put(first.requests, "/files/a", 34, "").status, 200);
    assert_eq!(get(first.status, "/readyz").status, 200);
    drop(first);
    let second = start();
    let stale = put(second.requests, "/files/a", 33, "");
    assert_eq!((stale.status, stale.json()["highest"].as_u64()), (412, Some(34)));
    assert_eq!(put(second.requests, "/files/a", 34, "").status, 200);
}

#[test]
fn policies_of_the_layer_are_those_of_the_proxy() {
    let upstream = Upstream::start();
    let always = Door::proxy(&upstream, &["--require-always", "--hide-highest", "--ceiling", "99"]);
    assert_eq!(get(always.requests, "/files/a").status, 428);
    assert_eq!(put(always.requests, "/files/a", 34, "").status, 200);
    assert!(put(always.requests, "/files/a", 33, "").json()["highest"].is_null());
    assert_eq!(put(always.requests, "/files/a", 100, "").status, 400);
    let shadow = Door::proxy(&upstream, &["--shadow"]);
    let shown = ask(shadow.requests, "PUT", "/files/a", &[], "");
    assert_eq!((shown.status, shown.header("fencing-shadow")), (200, Some("428")));
    let ignoring = Door::proxy(&upstream, &["--ignore-reads"]);
    let read = [("Fencing-Token", "99")];
    assert_eq!(ask(ignoring.requests, "GET", "/files/a", &read, "").status, 200);
    assert_eq!(put(ignoring.requests, "/files/a", 34, "").status, 200);
}

#[test]
fn marks_that_end_with_the_process_are_asked_for() {
    finish({
        let mut command = proxy("http://127.0.0.1:1");
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command
    })
    .says(64, "--marks");
}
