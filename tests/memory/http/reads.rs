//! Which requests look at the fence: what a read seals, and what is no request of the route.

use axum::routing::get;

use super::*;

async fn ok() -> &'static str {
    "ok"
}

fn writes_and_reads() -> axum::routing::MethodRouter {
    put(|_: Fenced| ok()).get(ok)
}

const GIANT: Option<&str> = Some("999999999999999");

/// 34's read must shut out 33, or 33 could write between 34's read and 34's write.
#[tokio::test]
async fn a_read_with_a_token_seals() {
    let app = Router::new().route("/files/{name}", writes_and_reads().route_layer(layer(fence())));
    for method in ["GET", "HEAD"] {
        let uri = format!("/files/{method}");
        assert_eq!(send(&app, method, &uri, Some("34")).await.status(), 200);
        assert_eq!(send(&app, "PUT", &uri, Some("33")).await.status(), 412, "{method}");
    }
}

/// Where those read who may not write, the fence can be told to ignore what they send.
#[tokio::test]
async fn a_read_only_user_cannot_stop_a_writer() {
    let layer = layer(fence()).policy(Policy::ignoring_reads);
    let routes = writes_and_reads().options(ok).route_layer(layer);
    let app = Router::new().route("/files/{name}", routes);
    assert_eq!(send(&app, "PUT", "/files/a", Some("7")).await.status(), 200);
    for method in ["GET", "HEAD", "OPTIONS"] {
        for token in [GIANT, Some("1"), Some("x"), None] {
            assert_eq!(
                send(&app, method, "/files/a", token).await.status(),
                200,
                "{method} {token:?}"
            );
        }
    }
    assert_eq!(send(&app, "PUT", "/files/a", Some("7")).await.status(), 200);
    assert_eq!(send(&app, "PUT", "/files/a", Some("6")).await.status(), 412, "writes are fenced");
    assert_eq!(send(&app, "PUT", "/files/a", None).await.status(), 428);
}

/// A handler that takes what was admitted gets nothing of a token that nobody has looked at.
#[tokio::test]
async fn a_token_that_was_ignored_was_not_admitted() {
    let read = |fenced: Option<Fenced>| async move { fenced.is_some().to_string() };
    let routes = get(read).route_layer(layer(fence()).policy(Policy::ignoring_reads));
    let app = Router::new().route("/files/{name}", routes);
    assert_eq!(text(send(&app, "GET", "/files/a", Some("34")).await).await, "false");
    let strict = get(|_: Fenced| ok()).route_layer(layer(fence()).policy(Policy::ignoring_reads));
    let app = Router::new().route("/files/{name}", strict);
    assert_eq!(send(&app, "GET", "/files/a", Some("34")).await.status(), 428);
}

/// The layer stands around the methods that the route has: others are none of its business.
#[tokio::test]
async fn what_the_route_does_not_have_raises_no_mark_and_needs_no_token() {
    let routes = writes_and_reads().route_layer(layer(fence()));
    let app = Router::new().route("/files/{name}", routes);
    for method in ["OPTIONS", "PATCH", "POST", "DELETE", "PROPFIND"] {
        assert_eq!(send(&app, method, "/files/a", GIANT).await.status(), 405, "{method}");
        assert_eq!(send(&app, method, "/files/a", None).await.status(), 405, "{method}");
        assert_eq!(send(&app, method, "/file/a", GIANT).await.status(), 404, "{method}");
    }
    assert_eq!(send(&app, "PUT", "/files/a", Some("7")).await.status(), 200);
    assert_eq!(send(&app, "PUT", "/file/a", Some("7")).await.status(), 404);
}

/// As the registry of methods has it: they read, so they need no token, and may bring one.
#[tokio::test]
async fn the_reads_of_web_dav_are_reads() {
    let app = Router::new().fallback(ok);
    let (fenced, ignoring) = (
        app.clone().layer(layer(fence())),
        app.layer(layer(fence()).policy(Policy::ignoring_reads)),
    );
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "QUERY", "REPORT", "SEARCH"] {
        assert_eq!(send(&fenced, method, "/files/a", None).await.status(), 200, "{method}");
        assert_eq!(send(&ignoring, method, "/files/a", GIANT).await.status(), 200, "{method}");
    }
    for method in ["PUT", "POST", "DELETE", "PATCH", "LOCK", "UNLOCK", "MKCOL", "MOVE", "COPY"] {
        assert_eq!(send(&fenced, method, "/files/a", None).await.status(), 428, "{method}");
    }
    for method in ["PROPPATCH", "ACL", "BIND", "propfind", "NEW"] {
        assert_eq!(send(&fenced, method, "/files/a", None).await.status(), 428, "{method}");
    }
    assert_eq!(send(&ignoring, "PUT", "/files/a", Some("7")).await.status(), 200);
    assert_eq!(send(&fenced, "REPORT", "/files/a", Some("34")).await.status(), 200);
    assert_eq!(send(&fenced, "PUT", "/files/a", Some("33")).await.status(), 412, "it seals");
}
