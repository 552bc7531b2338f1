//! Which requests look at the fence: what a read seals, and what is no request of the route.

use super::*;

async fn ok() -> &'static str {
    "ok"
}

const GIANT: Option<&str> = Some("999999999999999");

/// The layer stands around the methods that the route has: others are none of its business.
#[tokio::test]
async fn what_the_route_does_not_have_raises_no_mark_and_needs_no_token() {
    let routes = put(|_: Fenced| ok()).get(ok).route_layer(layer(fence()));
    let app = Router::new().route("/files/{name}", routes);
    for method in ["OPTIONS", "PATCH", "POST", "DELETE", "PROPFIND"] {
        assert_eq!(send(&app, method, "/files/a", GIANT).await.status(), 405, "{method}");
        assert_eq!(send(&app, method, "/files/a", None).await.status(), 405, "{method}");
        assert_eq!(send(&app, method, "/file/a", GIANT).await.status(), 404, "{method}");
    }
    assert_eq!(send(&app, "PUT", "/files/a", Some("7")).await.status(), 200);
    assert_eq!(send(&app, "PUT", "/file/a", Some("7")).await.status(), 404);
}

/// As the registry of methods has it: they read, so they need no token, and may bring one. It seals: 33 could write
/// between 34's read and 34's write otherwise. Where those read who may not write, the fence can be told to ignore what
/// they send.
#[tokio::test]
async fn reads_need_no_token_and_seal_unless_they_are_ignored() {
    let app = Router::new().fallback(ok);
    let (fenced, ignoring) = (
        app.clone().layer(layer(fence())),
        app.layer(layer(fence()).policy(Policy::ignoring_reads)),
    );
    assert_eq!(send(&ignoring, "PUT", "/files/a", Some("7")).await.status(), 200);
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "QUERY", "REPORT", "SEARCH"] {
        assert_eq!(send(&fenced, method, "/files/a", None).await.status(), 200, "{method}");
        for token in [GIANT, Some("1"), Some("x"), None] {
            let read = send(&ignoring, method, "/files/a", token).await;
            assert_eq!(read.status(), 200, "{method} {token:?}");
        }
        let uri = format!("/files/{method}");
        assert_eq!(send(&fenced, method, &uri, Some("34")).await.status(), 200, "{method}");
        assert_eq!(send(&fenced, "PUT", &uri, Some("33")).await.status(), 412, "{method} seals");
    }
    for method in ["PUT", "POST", "DELETE", "PATCH", "LOCK", "UNLOCK", "MKCOL", "MOVE", "COPY"] {
        assert_eq!(send(&fenced, method, "/files/a", None).await.status(), 428, "{method}");
    }
    for method in ["PROPPATCH", "ACL", "BIND", "propfind", "NEW"] {
        assert_eq!(send(&fenced, method, "/files/a", None).await.status(), 428, "{method}");
    }
    for (token, status) in [(Some("7"), 200), (Some("6"), 412), (None, 428)] {
        let write = send(&ignoring, "PUT", "/files/a", token).await;
        assert_eq!(write.status(), status, "writes are fenced");
    }
}
