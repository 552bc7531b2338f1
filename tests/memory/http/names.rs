//! One file has one name.

use axum::extract::{MatchedPath, OriginalUri};
use fencing::http::{matched, path};

use super::*;

#[tokio::test]
async fn a_path_with_a_second_name_names_nothing() {
    let handler = |axum::extract::Path(name): axum::extract::Path<String>| async move { name };
    let layer = FenceLayer::new(fence(), path);
    let app = Router::new().route("/files/{*name}", put(handler)).route_layer(layer);
    assert_eq!(put_to(&app, "/files/a", 34).await.status(), 200);
    for uri in ["/files/a", "/files/%61", "/files/a?x=1"] {
        assert_eq!(put_to(&app, uri, 33).await.status(), 412, "{uri}");
    }
    let others = "/files/./a /files/%2e/a /files//a /files/%2Fa /files/b/../a /files/b%2f..%2fa /files/b/%2E%2e/a \
                  /files/a/ /files/a/. /files/a%2F /files/%2e%2e/etc/passwd";
    for uri in others.split_whitespace() {
        let response = put_to(&app, uri, 33).await;
        assert_eq!(response.status(), 400, "{uri}");
        let found = problem(response).await;
        assert_eq!(found.kind, Problem::MALFORMED, "{uri}");
        assert!(found.detail.contains("segment"), "{uri}: {}", found.detail);
    }
    for uri in ["/files/.a", "/files/a..b", "/files/...", "/files/b/a", "/files/..a/b."] {
        assert_eq!(put_to(&app, uri, 33).await.status(), 200, "{uri}");
    }
}

async fn put_to(app: &Router, uri: &str, token: u64) -> Response<Body> {
    send(app, "PUT", uri, Some(&token.to_string())).await
}

async fn resource_and_token(Fenced { resource, token, .. }: Fenced) -> String {
    format!("{resource} {token}")
}

/// A nested router sees less of the path than its client has sent.
#[tokio::test]
async fn tenants_of_a_nested_router_share_no_name() {
    let routes = put(resource_and_token);
    let whole = "tenants/{tenant}/files/{name}";
    let whole = matched::<MatchedPath, OriginalUri>(MatchedPath::as_str, whole);
    let whole = FenceLayer::new(fence(), whole);
    let files = Router::new().route("/files/{name}", routes.clone().route_layer(whole));
    let app = Router::new().nest("/tenants", Router::new().nest("/{tenant}", files));
    let response = put_to(&app, "/tenants/blue/files/x", 1000).await;
    assert_eq!(text(response).await, "tenants/blue/files/x 1000");
    let response = put_to(&app, "/tenants/red/files/x", 5).await;
    assert_eq!(text(response).await, "tenants/red/files/x 5");
    for uri in ["/tenants/blue/files/x", "/tenants/%62lue/files/%78"] {
        assert_eq!(put_to(&app, uri, 999).await.status(), 412, "{uri}");
    }
    assert_eq!(put_to(&app, "/tenants/./files/x", 1).await.status(), 400);

    // `path` names what is left of the path, as its docs say.
    let rest = FenceLayer::new(fence(), path);
    let files = Router::new().route("/files/{name}", routes.route_layer(rest));
    let app = Router::new().nest("/tenants/{tenant}", files);
    let response = put_to(&app, "/tenants/blue/files/x", 1000).await;
    assert_eq!(text(response).await, "files/x 1000");
    assert_eq!(put_to(&app, "/tenants/red/files/x", 5).await.status(), 412);
}

/// By the route's own parameters, whatever stands around them.
#[tokio::test]
async fn a_route_names_the_resource_by_its_parameters() {
    let of = |fence: Fence, pattern| {
        let name = matched::<MatchedPath, OriginalUri>(MatchedPath::as_str, pattern);
        put(resource_and_token).route_layer(FenceLayer::new(fence, name))
    };
    let shared = fence();
    let nested = Router::new().route("/f/{*name}", of(shared.clone(), "files/{name}"));
    let app = Router::new()
        .route("/{version}/files/{name}", of(shared.clone(), "files/{name}"))
        .route("/t/{tenant}/files/{name}", of(shared.clone(), "{tenant}/files/{name}"))
        .route("/wrong/{name}", of(shared.clone(), "files/{nme}"))
        .nest("/nested/{tenant}", nested);
    assert_eq!(text(put_to(&app, "/v2/files/x", 34).await).await, "files/x 34");
    for uri in ["/v1/files/%78", "/v1/files/x?y=1", "/nested/red/f/x"] {
        assert_eq!(put_to(&app, uri, 33).await.status(), 412, "{uri}");
    }
    assert_eq!(text(put_to(&app, "/nested/red/f/b/%61", 5).await).await, "files/b/a 5");
    assert_eq!(text(put_to(&app, "/t/red/files/x", 5).await).await, "red/files/x 5");
    assert_eq!(text(put_to(&app, "/t/blue/files/x", 4).await).await, "blue/files/x 4");
    let others = "/v1/files/%2e%2fx /v1/files/b%2fa /v1/files/%2e /v1/files/%ff /nested/red/f/b/../x /nested/red/f//x \
                  /nested/red/f/b/%2e%2e/x /nested/red/f/x/";
    for uri in others.split_whitespace() {
        assert_eq!(put_to(&app, uri, 33).await.status(), 400, "{uri}");
    }
    // The server is misconfigured, not the client: no name rather than a wrong one.
    assert_eq!(put_to(&app, "/wrong/x", 33).await.status(), 500);
    let above = matched::<MatchedPath, OriginalUri>(MatchedPath::as_str, "files/{name}");
    let unrouted = Router::new().fallback(resource_and_token).layer(FenceLayer::new(shared, above));
    let response = put_to(&unrouted, "/v1/files/x", 33).await;
    assert_eq!(response.status(), 500);
    assert!(!response.headers().contains_key(header::RETRY_AFTER));
    let said = text(response).await;
    assert!(said.contains("nothing was written") && !said.contains("MatchedPath"), "{said}");
}
