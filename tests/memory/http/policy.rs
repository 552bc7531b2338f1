//! Which requests look at the fence: what a closure says of each, what a read seals, what is no request of the route.
//! And a layer that only tells what it would refuse.

use fencing::http::{Policy, SHADOW};

use super::*;

fn with(layer: FenceLayer<Name>) -> Router {
    let handler = |fenced: Option<Fenced>| async move { format!("{:?}", fenced.map(|f| f.token.get())) };
    Router::new().route("/files/{name}", put(handler).get(handler)).layer(layer)
}

#[tokio::test]
async fn a_closure_says_what_each_request_needs() {
    let policy = |parts: &http::request::Parts| match (parts.uri.path(), parts.method.is_safe()) {
        ("/files/a", false) => Policy::Required,
        ("/files/a", true) => Policy::Ignored,
        _ => Policy::Optional,
    };
    let app = with(layer(fence()).policy(policy));
    let send = async |method: &str, uri: &str, token: Option<&str>| {
        let response = super::send(&app, method, uri, token).await;
        (response.status().as_u16(), text(response).await)
    };
    assert_eq!(send("PUT", "/files/a", None).await.0, 428);
    assert_eq!(send("PUT", "/files/a", Some("34")).await, (200, "Some(34)".into()));
    assert_eq!(send("PUT", "/files/a", Some("33")).await.0, 412);
    // It does not even look at what is not a token.
    assert_eq!(send("GET", "/files/a", Some("33")).await, (200, "None".into()));
    assert_eq!(send("GET", "/files/a", Some("no token")).await, (200, "None".into()));
    assert_eq!(send("PUT", "/files/b", None).await, (200, "None".into()));
    assert_eq!(send("PUT", "/files/b", Some("34")).await, (200, "Some(34)".into()));
    assert_eq!(send("PUT", "/files/b", Some("33")).await.0, 412);
    assert_eq!(send("PUT", "/files/b", Some("no token")).await.0, 400);
}

#[tokio::test]
async fn in_shadow_every_request_passes_and_its_response_tells() {
    let app = with(layer(fence().ceiling(token(1000))).shadow());
    let send = async |method: &str, tokens: &[&str]| {
        let response = ask(&app, request(method, tokens)).await;
        let told = response.headers().get(SHADOW).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(response.status(), 200, "{method} {tokens:?}");
        (told, text(response).await)
    };
    let told = |status: &str| Some(status.to_owned());
    // One that was not issued raises no mark.
    assert_eq!(send("PUT", &["1001"]).await, (told("400"), "Some(1001)".into()));
    assert_eq!(send("PUT", &["34"]).await, (None, "Some(34)".into()));
    assert_eq!(send("PUT", &["33"]).await, (told("412"), "Some(33)".into()));
    assert_eq!(send("PUT", &[]).await, (told("428"), "None".into()));
    assert_eq!(send("GET", &[]).await, (None, "None".into()));
    assert_eq!(send("PUT", &["0"]).await, (told("400"), "None".into()));
    assert_eq!(send("PUT", &["33", "34"]).await, (told("400"), "None".into()));
    // A stale one has not lowered the mark.
    assert_eq!(send("PUT", &["33"]).await.0, told("412"));
    // Nor do marks that fail hold anybody up.
    let app = with(layer(Fence::new(NoMarks::Unreachable)).shadow());
    let response = write(&app, 34).await;
    assert_eq!((response.status().as_u16(), &response.headers()[SHADOW]), (200, &http::HeaderValue::from(503)));
}

#[tokio::test(start_paused = true)]
async fn in_shadow_no_request_touches_another() {
    let (app, go) = slow(layer(fence().drop_older_after(Duration::ZERO)).shadow());
    let older = tokio::spawn(app.clone().oneshot(request("PUT", &["33"])));
    tokio::task::yield_now().await;
    let newer = app.oneshot(request("PUT", &["34"]));
    let newer = tokio::time::timeout(Duration::from_secs(1), newer).await;
    assert_eq!(newer.expect("it does not wait").unwrap().status(), 200);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!older.is_finished());
    go.notify_one();
    let older = older.await.unwrap().unwrap();
    assert_eq!((older.status().as_u16(), older.headers().get(SHADOW)), (200, None));
}

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
/// between 34's read and write otherwise. If readers may not write, the fence can be told to ignore what they send.
#[tokio::test]
async fn reads_need_no_token_and_seal_unless_they_are_ignored() {
    let app = Router::new().fallback(ok);
    let (fenced, ignoring) =
        (app.clone().layer(layer(fence())), app.layer(layer(fence()).policy(Policy::ignoring_reads)));
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
    let writes = "PUT POST DELETE PATCH LOCK UNLOCK MKCOL MOVE COPY PROPPATCH ACL BIND propfind NEW";
    for method in writes.split(' ') {
        assert_eq!(send(&fenced, method, "/files/a", None).await.status(), 428, "{method}");
    }
    for (token, status) in [(Some("7"), 200), (Some("6"), 412), (None, 428)] {
        let write = send(&ignoring, "PUT", "/files/a", token).await;
        assert_eq!(write.status(), status, "writes are fenced");
    }
}
