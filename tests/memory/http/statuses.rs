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

#[tokio::test]
async fn a_resource_that_is_none_is_a_bad_request() {
    let app = Router::new().fallback(async || "reached").layer(layer(fence()));
    let request = Request::builder().method("PUT").uri("/").header(HEADER, "1");
    assert!(
        refused(ask(&app, request.body(Body::empty()).unwrap()).await, 400)
            .await
            .detail
            .contains("this one is empty")
    );
}

#[tokio::test]
async fn full_marks_are_not_to_be_tried_again() {
    let app = app(Fence::new(MemoryMarks::new(0)));
    let response = write(&app, 1).await;
    assert_eq!(response.status(), 503);
    assert!(!response.headers().contains_key(header::RETRY_AFTER));
    let found = problem(response).await;
    let text = "no room for a high-water mark of files/a; nothing was written";
    assert_eq!((found.kind.as_str(), found.detail.as_str()), (Problem::UNAVAILABLE, text));
}

#[tokio::test]
async fn unreachable_marks_let_nobody_pass_and_say_little() {
    let response = app(Fence::new(NoMarks)).oneshot(request("PUT", &["34"])).await.unwrap();
    assert_eq!(response.status(), 503);
    assert!(response.headers().contains_key(header::RETRY_AFTER));
    let body = text(response).await;
    assert!(!body.contains("secret-host"), "{body}");
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
}

#[test]
fn without_a_tokio_runtime_requests_are_refused_and_nothing_panics() {
    let response = app(fence()).oneshot(request("PUT", &["34"])).now_or_never().unwrap().unwrap();
    assert_eq!(response.status(), 503);
    assert!(!response.headers().contains_key(header::RETRY_AFTER));
    let refusal: &Refusal = response.extensions().get().unwrap();
    assert!(refusal.to_string().starts_with("no tokio runtime"), "{refusal}");
}

#[tokio::test]
async fn grpc_is_answered_with_trailers_only() {
    let app = app(Fence::new(MemoryMarks::new(1)).ceiling(token(1000)));
    write(&app, 34).await;
    for (tokens, uri, status) in [
        (&["33"] as &[&str], "/files/a", "10"),
        (&[], "/files/a", "9"),
        (&["x"], "/files/a", "3"),
        (&["1001"], "/files/a", "3"),
        (&["35"], "/files/b", "14"),
    ] {
        let mut request = request("POST", tokens);
        *request.uri_mut() = uri.parse().unwrap();
        let kind = "application/grpc+proto".parse().unwrap();
        request.headers_mut().insert(header::CONTENT_TYPE, kind);
        let response = ask(&app, request).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["grpc-status"], status, "{tokens:?}");
        assert_eq!(response.headers()["content-type"], "application/grpc");
        assert!(response.headers().contains_key("grpc-message"));
        assert_eq!(text(response).await, "");
    }
}

#[tokio::test]
async fn only_grpc_is_answered_as_grpc() {
    let app = app(fence());
    write(&app, 34).await;
    for (method, kind) in [
        ("PUT", "application/grpc"),
        ("POST", "application/grpc-web"),
        ("POST", "application/grpcx"),
        ("POST", "application/json"),
    ] {
        let mut request = request(method, &["33"]);
        request.headers_mut().insert(header::CONTENT_TYPE, kind.parse().unwrap());
        assert_eq!(ask(&app, request).await.status(), 412, "{method} {kind}");
    }
}
