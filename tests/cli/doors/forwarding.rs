//! What the proxy passes on, and under which name. Requests and answers in odd forms: trailers, HTTP/2 by hand, and an
//! unasked upgrade. Resources that patterns of the path name.

use super::limits::HTTP2;
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
    for header in ["host: test", "x-other: 1", "x-forwarded-for: 10.0.0.1, 127.0.0.1", "via: 1.1 fencing"] {
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
    let two = [("Fencing-Token", "34"), ("Destination", "http://test/files/a"), ("X-Resource", "b")];
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

#[test]
fn trailers_say_nothing_that_the_fence_has_not_seen() {
    let (service, door) = by_hand("--resource-header x-resource");
    let headers = [
        ("Fencing-Token", "33"),
        ("X-Resource", "files/a"),
        ("Transfer-Encoding", "chunked"),
        ("Trailer", "X-Original-URL, Fencing-Token, X-Resource, X-Sum"),
    ];
    let trailers = "0\r\nX-Original-URL: /b\r\nFencing-Token: 99\r\nX-Resource: files/b\r\nX-Sum: 7\r\n\r\n";
    let mut client = Client::connect(door.requests);
    client.send(head("PUT", "/files/a", &headers) + trailers);
    let mut accepted = Client::accepted(&service);
    accepted.read_until("\r\n\r\n");
    assert_eq!(accepted.read_until("\r\n\r\n").to_lowercase(), "0\r\nx-sum: 7\r\n\r\n");
    // They are the end of the upload: a newer token waits for nothing more.
    accepted.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    client.read_until("\r\n\r\n");
    let newer = [("Fencing-Token", "34"), ("X-Resource", "files/a"), ("Content-Length", "0")];
    client.send(head("PUT", "/files/a", &newer));
    service.set_nonblocking(true).unwrap();
    until("the next request is passed on", || service.accept().is_ok());
}

#[test]
fn an_upgrade_that_nobody_asked_for_opens_nothing() {
    let options = "--upstream-timeout 10s --quarantine 10m --limit 100ms";
    let (service, door) = by_hand(options);
    let mut client = door.begin("/files/a", 33, Some(0), "");
    let mut service = Client::accepted(&service);
    service.read_until("\r\n\r\n");
    service.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
    assert_eq!(client.answer().status, 502);
    door.is_closed("/files/a");
}

/// Sends a request in HTTP/2, and returns whether the answer is a 400 of the proxy.
fn is_refused(door: &Door, headers: &[(&str, &str)]) -> bool {
    let mut block = Vec::new();
    for (name, value) in headers {
        // A literal, not indexed and without Huffman codes.
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    let mut bytes = HTTP2.as_bytes().to_vec();
    // HEADERS, with the end of the headers and of the stream.
    bytes.extend([0, 0, u8::try_from(block.len()).unwrap(), 1, 5, 0, 0, 0, 1]);
    bytes.extend(block);
    let mut client = Client::connect(door.requests);
    client.send(bytes);
    loop {
        let frame = client.read(9).unwrap();
        let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]) as usize;
        let body = client.read(length).unwrap();
        match frame[3] {
            // The status 400 has an index of its own. A table size may stand before it.
            1 => return body.iter().find(|byte| **byte & 0xe0 != 0x20) == Some(&0x8c),
            3 => return false,
            _ => {}
        }
    }
}

#[test]
fn http2_has_the_same_rules_for_lengths_and_paths() {
    let (upstream, door) = proxied("");
    let is_refused = |method: &str, path: &str, more: &[(&str, &str)]| {
        let own = [(":method", method), (":scheme", "http"), (":authority", "test"), (":path", path)];
        is_refused(&door, &[&own[..], more].concat())
    };
    let (token, length) = (("fencing-token", "33"), ("content-length", "0"));
    assert!(is_refused("PUT", "/files/a", &[token, length, length]));
    assert!(!is_refused("PUT", "/files/a", &[token, length]));
    assert!(is_refused("GET", "*", &[]));
    assert!(!is_refused("OPTIONS", "*", &[]));
    let events = upstream.events();
    assert!(!events.iter().any(|event| event.contains("GET *")), "{events:?}");
}

#[test]
fn a_part_of_the_path_names_the_resource() {
    let (upstream, door) = proxied("--resource-from /accounts/{id}/**=accounts/{id}");
    assert_eq!(door.put("/accounts/7/owner", 34, "").status, 200);
    // Another path below the same account.
    for path in ["/accounts/7", "/accounts/7/limits/daily", "/accounts/%37/owner"] {
        assert_eq!(door.put(path, 33, "").status, 412, "{path}");
    }
    assert_eq!(door.put("/accounts/8/owner", 33, "").status, 200);
    // No pattern, and what has a second name.
    for path in ["/other/7", "/Accounts/7", "/accounts//7", "/accounts/8/../7", "/accounts%2f7"] {
        assert_eq!(door.put(path, 99, "").status, 400, "{path}");
    }
    assert_eq!(door.ask("PUT", "/other/7", &[], "").status, 428);
    assert_eq!(upstream.events().len(), 4, "{:?}", upstream.events());
}

#[test]
fn both_resources_are_in_flight() {
    let patterns = "--resource-from /slow/{from}/{to}=a/{from},a/{to} --resource-from /a/{id}=a/{id}";
    let (upstream, door) = proxied(&format!("--limit 200ms {patterns}"));
    let both = ["33 a/7", "33 a/8"].map(|pair| ("Fencing-Sequencer", pair));
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| door.ask("POST", "/slow/7/8", &both, "x").status);
        upstream.until("begin POST /slow/7/8");
        door.is_closed("/a/7");
        door.is_closed("/a/8");
        assert_eq!(door.put("/a/9", 34, "").status, 200);
        upstream.open();
        assert_eq!(slow.join().unwrap(), 200);
    });
    door.lets_in("/a/8");
}
