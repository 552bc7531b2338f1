//! Requests about several resources, and resources that stand in the body.

use fencing::Sequencer;
use fencing::http::{self as door, NameLayer, Resources, attach_all};
use http_body_util::Limited;

use super::admin::said;
use super::*;

type Named = Result<Vec<Resource>, fencing::ResourceError>;

/// The path has the names, with a plus between them: `/a+b`.
fn layer_of_several(fence: Fence) -> FenceLayer<fn(&http::request::Parts) -> Named> {
    FenceLayer::new(fence, |parts| parts.uri.path().trim_start_matches('/').split('+').map(Resource::new).collect())
}

fn moving(path: &str, sequencers: &[&str]) -> Request<Body> {
    let mut request = Request::put(path).body(Body::empty()).unwrap();
    let sequencers: Vec<Sequencer> = sequencers.iter().map(|text| text.parse().unwrap()).collect();
    attach_all(request.headers_mut(), &sequencers);
    request
}

fn app_of_several(fence: Fence) -> Router {
    let write = async |fenced: Fenced| {
        let texts: Vec<_> = fenced.sequencers().iter().map(ToString::to_string).collect();
        texts.join(", ")
    };
    Router::new().fallback(write).layer(layer_of_several(fence))
}

async fn admits(fence: &Fence, name: &str, number: u64) -> bool {
    fence.admit(&named(name), token(number)).await.is_ok()
}

#[tokio::test]
async fn each_resource_has_its_own_token() {
    let app = app_of_several(fence());
    let send = async |path: &str, sequencers: &[&str]| {
        let response = ask(&app, moving(path, sequencers)).await;
        (response.status().as_u16(), text(response).await)
    };
    assert_eq!(send("/b+a", &["7 a", "34 b"]).await, (200, "34 b, 7 a".into()));
    assert_eq!(send("/a", &["7 a"]).await, (200, "7 a".into()));
    // None, too few, too many, another, one twice.
    assert_eq!(send("/a+b", &[]).await.0, 428);
    for wrong in [&["7 a"][..], &["7 a", "34 b", "1 c"], &["7 a", "34 c"], &["7 a", "7 a"], &["7 a", "8 a", "34 b"]] {
        assert_eq!(send("/a+b", wrong).await.0, 400, "{wrong:?}");
    }
    assert_eq!(send("/a+a", &["7 a", "34 b"]).await.0, 400);
    let mut bare = moving("/a+b", &["7 a", "34 b"]);
    attach(bare.headers_mut(), token(7));
    assert_eq!(ask(&app, bare).await.status(), 400);
    let mut alone = moving("/a+b", &[]);
    attach(alone.headers_mut(), token(7));
    assert_eq!(ask(&app, alone).await.status(), 400);
    let many: Vec<String> = (0..=Resources::MAX).map(|nr| format!("1 {nr}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(send("/a+b", &many).await.0, 400);
}

#[tokio::test]
async fn all_are_admitted_or_none() {
    let fence = fence();
    assert!(admits(&fence, "b", 35).await);
    let app = app_of_several(fence.clone());
    let found = refused(ask(&app, moving("/a+b", &["7 a", "34 b"])).await, 412).await;
    assert_eq!(found.stale().unwrap().resource.as_str(), "b");
    // What it had of the others is free again.
    assert!(admits(&fence, "a", 8).await);
}

/// Each is older than the other with one resource, and names them in another order.
#[tokio::test]
async fn requests_never_wait_for_each_other() {
    // Others come in between.
    let slow = marks_behind(|| tokio::time::sleep(Duration::from_millis(50)));
    let fence = Fence::new(slow).limit(Duration::from_secs(60));
    let app = app_of_several(fence);
    let one = app.clone().oneshot(moving("/a+b", &["33 a", "34 b"]));
    let two = app.clone().oneshot(moving("/b+a", &["33 b", "34 a"]));
    let both = async { tokio::join!(one, two) };
    let both = tokio::time::timeout(Duration::from_secs(10), both).await.expect("no deadlock");
    let mut statuses = [both.0.unwrap().status().as_u16(), both.1.unwrap().status().as_u16()];
    statuses.sort_unstable();
    assert!(statuses[1] == 412, "the second is stale with one of them: {statuses:?}");
}

#[tokio::test]
async fn one_that_waits_with_a_resource_gives_it_up() {
    let fence = fence().limit(Duration::from_secs(20));
    let held = fence.admit(&named("b"), token(33)).await.unwrap();
    let app = app_of_several(fence.clone().drop_older_after(Duration::ZERO));
    let waiting = tokio::spawn(app.clone().oneshot(moving("/a+b", &["34 a", "34 b"])));
    let hasty = fence.clone().limit(Duration::ZERO);
    while admits(&hasty, "a", 33).await {
        tokio::task::yield_now().await;
    }
    let newer = app.clone().oneshot(moving("/a", &["35 a"]));
    let newer = tokio::time::timeout(Duration::from_secs(10), newer).await.expect("it is let in");
    assert_eq!(newer.unwrap().status(), 200);
    assert_eq!(waiting.await.unwrap().unwrap().status(), 412);
    drop(held);
}

/// The request is in flight with all its resources until its body has ended.
#[tokio::test]
async fn a_body_that_is_cut_off_by_a_newer_request_of_any_resource() {
    for name in ["a", "b"] {
        let fence = fence().drop_older_after(Duration::ZERO);
        let stream = async || {
            let frames = futures_util::stream::pending::<Result<http_body::Frame<Bytes>, Infallible>>();
            Body::new(StreamBody::new(frames))
        };
        let app: Router = Router::new().fallback(stream).layer(layer_of_several(fence.clone()));
        let response = ask(&app, moving("/a+b", &["33 a", "33 b"])).await;
        assert!(admits(&fence, name, 34).await);
        assert!(response.into_body().collect().await.is_err());
    }
}

async fn in_the_body(request: Request<Body>) -> Result<(Request<Body>, Resource), Refusal> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, 100).collect().await.map_err(Refusal::unnamed)?;
    let body = body.to_bytes();
    let name = String::from_utf8(body.to_vec()).map_err(Refusal::unnamed)?;
    let resource = Resource::new(name.as_str()).map_err(Refusal::unnamed)?;
    Ok((Request::from_parts(parts, Body::from(body)), resource))
}

/// What the server cannot ask about is no fault of the client's, who is not told its errors either.
#[tokio::test]
async fn a_database_that_cannot_name_the_resource_is_unavailable() {
    type Named = Result<(Request<Body>, Resource), sqlx::Error>;
    let name = async |_: Request<Body>| Named::Err(sqlx::Error::Protocol("a secret".into()));
    let app = Router::new().fallback(async || "reached").layer(layer(fence()));
    let app: Router = app.layer(NameLayer::new(name));
    let response = write(&app, 33).await;
    assert_eq!(response.status(), 503);
    assert!(response.headers().contains_key(header::RETRY_AFTER));
    assert!(matches!(response.extensions().get(), Some(Refusal::Unnamed(_))));
    let (said, response) = said(&app).await;
    assert!(said.contains("a secret"), "{said}");
    let found = problem(response).await;
    assert_eq!(found.kind, Problem::UNAVAILABLE);
    assert!(!found.detail.contains("secret") && found.detail.contains("nothing was written"));
}

#[tokio::test]
async fn the_body_names_the_resource_and_reaches_the_handler() {
    let shown = async |fenced: Fenced, body: String| format!("{} {body}", fenced.resource);
    let layer = || FenceLayer::new(fence(), door::named);
    let app: Router = Router::new().fallback(shown);
    let app = app.layer(layer()).layer(NameLayer::new(in_the_body));
    let send = async |number: u64, body: &str| {
        let mut request = Request::put("/").body(Body::from(body.to_owned())).unwrap();
        attach(request.headers_mut(), token(number));
        let response = ask(&app, request).await;
        (response.status().as_u16(), text(response).await)
    };
    assert_eq!(send(34, "docs/a").await, (200, "docs/a docs/a".into()));
    assert_eq!(send(33, "docs/a").await.0, 412);
    assert_eq!(send(33, "docs/b").await.0, 200);
    let (status, body) = send(35, " ").await;
    assert_eq!(status, 400);
    assert!(body.contains(Problem::MALFORMED), "{body}");
    assert_eq!(send(35, &"x".repeat(101)).await.0, 400);

    // Without the layer above.
    let app: Router = Router::new().fallback(async || "").layer(layer());
    assert_eq!(write(&app, 34).await.status(), 500);
}
