//! What each request needs, by a closure; and a layer that only tells what it would refuse.

use fencing::http::{Policy, SHADOW};

use super::*;

fn with(layer: FenceLayer<Name>) -> Router {
    let handler =
        |fenced: Option<Fenced>| async move { format!("{:?}", fenced.map(|f| f.token.get())) };
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
}

#[tokio::test]
async fn in_shadow_marks_that_fail_hold_nobody_up() {
    let app = with(layer(Fence::new(NoMarks)).shadow());
    let response = write(&app, 34).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()[SHADOW]),
        (200, &http::HeaderValue::from(503))
    );
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
