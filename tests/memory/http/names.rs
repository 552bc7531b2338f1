//! One file has one name.

use fencing::http::path;

use super::*;

#[tokio::test]
async fn a_path_with_a_second_name_names_nothing() {
    let handler = |axum::extract::Path(name): axum::extract::Path<String>| async move { name };
    let layer = FenceLayer::new(fence(), path);
    let app = Router::new().route("/files/{*name}", put(handler)).route_layer(layer);
    let send = async |uri: &str, token: u64| {
        let request = Request::builder().method("PUT").uri(uri).header(HEADER, token);
        app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    };
    assert_eq!(send("/files/a", 34).await.status(), 200);
    for uri in ["/files/a", "/files/%61", "/files/a?x=1"] {
        assert_eq!(send(uri, 33).await.status(), 412, "{uri}");
    }
    for uri in [
        "/files/./a",
        "/files/%2e/a",
        "/files//a",
        "/files/%2Fa",
        "/files/b/../a",
        "/files/b%2f..%2fa",
        "/files/b/%2E%2e/a",
        "/files/a/",
        "/files/a/.",
        "/files/a%2F",
        "/files/%2e%2e/etc/passwd",
    ] {
        let response = send(uri, 33).await;
        assert_eq!(response.status(), 400, "{uri}");
        let found = problem(response).await;
        assert_eq!(found.kind, Problem::MALFORMED, "{uri}");
        assert!(found.detail.contains("segment"), "{uri}: {}", found.detail);
    }
    for uri in ["/files/.a", "/files/a..b", "/files/...", "/files/b/a", "/files/..a/b."] {
        assert_eq!(send(uri, 33).await.status(), 200, "{uri}");
    }
}
