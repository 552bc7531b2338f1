//! What the proxy passes on, and under which name.

use super::*;

/// `proxy/headers.rs` has more of them.
#[test]
fn headers_of_the_connection_and_methods_in_disguise_are_taken_away() {
    let (_upstream, door) = proxied("");
    let headers = [
        ("Connection", "X-Own"),
        ("X-Own", "1"),
        ("X_HTTP_Method_Override", "DELETE"),
        ("X-Original-URL", "/second"),
        ("Fencing_Token", "99"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("X-Other", "1"),
    ];
    let answer = door.ask("GET", "/files/a?b=c", &headers, "");
    assert_eq!(answer.status, 200);
    let seen = answer.text().to_lowercase();
    assert!(seen.starts_with("get /files/a?b=c http/1.1\r\n"), "{seen}");
    for header in
        ["host: test", "x-other: 1", "x-forwarded-for: 10.0.0.1, 127.0.0.1", "via: 1.1 fencing"]
    {
        assert!(seen.contains(&format!("\r\n{header}\r\n")), "{header}: {seen}");
    }
    for header in ["x-own", "method", "second", "99"] {
        assert!(!seen.contains(header), "{header}: {seen}");
    }
    // The same on the way back.
    assert_eq!((answer.header("x-own"), answer.header("x-read")), (None, Some("0")));
    assert!(answer.header("via").is_some());
    for method in ["GET", "PROPFIND"] {
        assert_eq!(door.ask(method, "/files/a?_method=DELETE", &[], "").status, 400, "{method}");
    }
    assert_eq!(door.ask("TRACE", "/files/a", &[], "").status, 405);
    for (cause, count) in [("malformed", 2.0), ("method", 1.0)] {
        let counted = format!("fencing_proxy_refused_total{{cause=\"{cause}\"}}");
        assert_eq!(door.metric(&counted), count, "{cause}");
    }
}

/// `proxy/names.rs` has more of them.
#[test]
fn a_path_with_a_second_name_is_refused() {
    let (upstream, door) = proxied("");
    assert_eq!(door.put("/files/a", 34, "").status, 200);
    for path in ["/files//a", "/files\\a", "/files/a%3Fx", "/files/a%23x"] {
        assert_eq!(door.put(path, 33, "").status, 400, "{path}");
    }
    // The same name in another spelling, and as an absolute URI.
    assert_eq!(door.put("/files/%61", 33, "").status, 412);
    assert_eq!(door.put("http://other/files/a", 33, "").status, 412);
    assert_eq!(door.ask("PUT", "/files/a", &[], "").status, 428);
    assert_eq!(upstream.events().len(), 2, "{:?}", upstream.events());
}

#[test]
fn a_gateway_may_name_the_resource() {
    let (upstream, door) = proxied("--resource-header x-resource");
    let write = |path: &str, token: &str, resources: &[&str]| {
        let mut headers = vec![("Fencing-Token", token)];
        headers.extend(resources.iter().map(|name| ("X-Resource", *name)));
        door.ask("PUT", path, &headers, "").status
    };
    assert_eq!(write("/v1/files/a", "34", &["files/a"]), 200);
    assert_eq!(write("/v2//a", "33", &["files/a"]), 412);
    assert_eq!(write("/v1/files/a", "33", &["files/b"]), 200);
    assert_eq!(write("/v1/files/a", "35", &[]), 400);
    assert_eq!(write("/v1/files/a", "35", &["files/a", "files/b"]), 400);

    // Without it, a second resource in a header is refused.
    let two =
        [("Fencing-Token", "34"), ("Destination", "http://test/files/a"), ("X-Resource", "b")];
    let seen = upstream.events().len();
    let by_path = Door::proxy(&upstream.url(), "");
    for method in ["MOVE", "COPY", "PUT"] {
        by_path.ask(method, "/files/b", &two, "").is(400, "malformed");
    }
    assert_eq!(upstream.events().len(), seen);
    assert_eq!(door.ask("MOVE", "/files/b", &two, "").status, 200);
}

#[test]
fn a_quarantine_shorter_than_the_service_may_take_is_warned_of() {
    for (options, warned) in [
        ("--quarantine 59s", true),
        ("--quarantine 60s", false),
        ("--upstream-timeout 2m", false),
        ("--upstream-timeout 2m --quarantine 90s", true),
    ] {
        // The address is no loopback of this machine: it ends at once.
        let options = format!("{options} --forget-marks-on-exit --listen 192.0.2.1:0");
        let ended = finish(proxy("http://127.0.0.1:1", &options)).says(71, "");
        assert_eq!(ended.stderr.contains("warning: --quarantine"), warned, "{ended:?}");
    }
}

#[test]
fn http2_passes_on_both_sides() {
    let (_upstream, inner) = proxied("");
    let outer = Door::proxy(&format!("http://{}", inner.requests), "--upstream-http2");
    let curl = |token: u64| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--http2-prior-knowledge", "--write-out"]);
        curl.arg("\n%{http_code} %{http_version}").args(["-X", "PUT", "-d", "body"]);
        curl.arg("-H").arg(format!("Fencing-Token: {token}"));
        curl.arg(format!("http://{}/files/a", outer.requests));
        finish(curl).printed()
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
fn policies_of_the_layer_are_those_of_the_proxy() {
    let options = "--require-always --hide-highest --ceiling 99";
    let (upstream, always) = proxied(options);
    assert_eq!(always.get("/files/a").status, 428);
    assert_eq!(always.put("/files/a", 34, "").status, 200);
    assert!(always.put("/files/a", 33, "").json()["highest"].is_null());
    assert_eq!(always.put("/files/a", 100, "").status, 400);
    let shadow = Door::proxy(&upstream.url(), "--shadow");
    let shown = shadow.ask("PUT", "/files/a", &[], "");
    assert_eq!((shown.status, shown.header("fencing-shadow")), (200, Some("428")));
    let ignoring = Door::proxy(&upstream.url(), "--ignore-reads");
    let read = [("Fencing-Token", "99")];
    assert_eq!(ignoring.ask("GET", "/files/a", &read, "").status, 200);
    assert_eq!(ignoring.put("/files/a", 34, "").status, 200);
}
