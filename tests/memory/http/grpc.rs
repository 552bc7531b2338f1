//! Refusals for clients that speak gRPC.

use super::*;

#[tokio::test]
async fn grpc_is_answered_with_trailers_only() {
    let app = app(Fence::new(MemoryMarks::new(1)));
    app.clone().oneshot(request("PUT", &["34"])).await.unwrap();
    for (tokens, uri, status) in [
        (&["33"] as &[&str], "/files/a", "10"),
        (&[], "/files/a", "9"),
        (&["x"], "/files/a", "3"),
        (&["35"], "/files/b", "14"),
    ] {
        let mut request = request("POST", tokens);
        *request.uri_mut() = uri.parse().unwrap();
        let kind = "application/grpc+proto".parse().unwrap();
        request.headers_mut().insert(header::CONTENT_TYPE, kind);
        let response = app.clone().oneshot(request).await.unwrap();
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
    app.clone().oneshot(request("PUT", &["34"])).await.unwrap();
    for (method, kind) in [
        ("PUT", "application/grpc"),
        ("POST", "application/grpc-web"),
        ("POST", "application/grpcx"),
        ("POST", "application/json"),
    ] {
        let mut request = request(method, &["33"]);
        request.headers_mut().insert(header::CONTENT_TYPE, kind.parse().unwrap());
        let response = app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 412, "{method} {kind}");
    }
}
