//! Which refusal has which status, over HTTP and gRPC, and what it tells the client.

use super::*;

#[tokio::test]
async fn refusals_are_problems_that_a_client_can_read() {
    let app = app(fence());
    write(&app, 34).await;

    let response = write(&app, 33).await;
    assert_eq!(response.status(), 412);
    assert!(matches!(response.extensions().get(), Some(Refusal::Stale(_))));
    let found = problem(response).await;
    let stale = Stale::check(&file(), token(33), Some(token(34)));
    assert_eq!(found.stale(), stale.err());
    assert_eq!(found.detail, "token 33 of files/a is stale, high water 34");

    assert_eq!(refused(ask(&app, request("PUT", &[])).await, 428).await.kind, Problem::MISSING);

    let bad: &[&[&str]] = &[
        &[""],
        &["0"],
        &["-1"],
        &["+1"],
        &["01"],
        &["1 2"],
        &["34, 35"],
        &["34;a=b"],
        &["1.0"],
        &["1000000000000000"],
        &["\u{e9}"],
        &["33", "34"],
        &["34", "34"],
    ];
    for tokens in bad {
        for method in ["PUT", "GET"] {
            let response = ask(&app, request(method, tokens)).await;
            assert_eq!(response.status(), 400, "{tokens:?}");
            assert_eq!(problem(response).await.kind, Problem::MALFORMED);
        }
    }
}

/// So a client that asks first (`Expect: 100-continue`) sends nothing of a large upload.
#[tokio::test]
async fn a_refusal_comes_before_the_upload_is_read() {
    let app = app(fence());
    write(&app, 34).await;
    let upload = futures_util::stream::poll_fn(|_| -> Poll<Option<Result<Bytes, Infallible>>> {
        panic!("somebody reads the upload")
    });
    let refuse = request("PUT", &["33"]).map(|_| Body::from_stream(upload));
    assert_eq!(ask(&app, refuse).await.status(), 412);
}

#[tokio::test]
async fn a_resource_that_is_none_is_a_bad_request() {
    let app = Router::new().fallback(async || "reached").layer(layer(fence()));
    let found = refused(send(&app, "PUT", "/", Some("1")).await, 400).await;
    assert!(found.detail.contains("this one is empty"), "{}", found.detail);
}

/// Marks that cannot be reached let nobody pass, and it may help to try again; with full ones it does not.
#[tokio::test]
async fn marks_that_fail_let_nobody_pass_and_say_little() {
    let full = "no room for a high-water mark of files/a; nothing was written";
    for (fence, again) in [(Fence::new(NoMarks), true), (Fence::new(MemoryMarks::new(0)), false)] {
        let response = write(&app(fence), 34).await;
        assert_eq!(response.headers().contains_key(header::RETRY_AFTER), again);
        let found = refused(response, 503).await;
        assert_eq!(found.kind, Problem::UNAVAILABLE);
        assert!(!found.detail.contains("secret-host"), "{}", found.detail);
        assert_eq!(found.detail == full, !again, "{}", found.detail);
    }
}

#[test]
fn a_problem_that_is_none_is_an_error() {
    let mut headers = http::HeaderMap::new();
    assert!(Problem::read(&headers, b"{}").is_err());
    let kind = "application/problem+json; charset=utf-8".parse().unwrap();
    headers.insert(header::CONTENT_TYPE, kind);
    for bad in ["", "{}", "[]", r#"{"type":"x","title":"y","status":412,"highest":0}"#, "\u{0}"] {
        assert!(Problem::read(&headers, bad.as_bytes()).is_err(), "{bad}");
    }
    let foreign = r#"{"type":"about:blank","title":"y","status":404,"balance":30}"#;
    assert!(!Problem::read(&headers, foreign.as_bytes()).unwrap().is_stale());
    // It says that the token is stale, and not for which.
    let part = r#"{"type":"urn:fencing:stale","title":"y","status":412,"resource":"a","presented":33}"#;
    assert_eq!(Problem::read(&headers, part.as_bytes()).unwrap().stale(), None);
}

/// With trailers only, and in no other case.
#[tokio::test]
async fn grpc_is_answered_as_grpc() {
    let app = app(Fence::new(MemoryMarks::new(1)).ceiling(token(1000)));
    write(&app, 34).await;
    for (kind, method, uri, tokens, status) in [
        ("grpc+proto", "POST", "/files/a", &["33"] as &[&str], "10"),
        ("grpc+proto", "POST", "/files/a", &[], "9"),
        ("grpc+proto", "POST", "/files/a", &["x"], "3"),
        ("grpc+proto", "POST", "/files/a", &["1001"], "3"),
        ("grpc+proto", "POST", "/files/b", &["35"], "14"),
        ("grpc", "PUT", "/files/a", &["33"], ""),
        ("grpc-web", "POST", "/files/a", &["33"], ""),
        ("grpcx", "POST", "/files/a", &["33"], ""),
        ("json", "POST", "/files/a", &["33"], ""),
    ] {
        let mut request = request(method, tokens);
        *request.uri_mut() = uri.parse().unwrap();
        let kind = format!("application/{kind}");
        request.headers_mut().insert(header::CONTENT_TYPE, kind.parse().unwrap());
        let response = ask(&app, request).await;
        if status.is_empty() {
            assert_eq!(response.status(), 412, "{method} {kind}");
            continue;
        }
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["grpc-status"], status, "{tokens:?}");
        assert_eq!(response.headers()["content-type"], "application/grpc");
        assert!(response.headers().contains_key("grpc-message"));
        assert_eq!(text(response).await, "");
    }
}
