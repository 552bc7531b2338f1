//! The client side: what is sent under a lease, and what a refusal becomes; also above a client of the crate `reqwest`,
//! as docs/reference/http.md shows it.

use std::future::poll_fn;

use axum::http::Uri;
use fencing::http::{AttachError, AttachLayer, SEQUENCER};
use fencing::{HeldToken, Sequencer, lock};
use tower::limit::GlobalConcurrencyLimitLayer;

use super::*;
use crate::driver::fleet::Fleet;

fn to(uri: &str) -> Request<Body> {
    Request::builder().method("PUT").uri(uri).body(Body::empty()).unwrap()
}

struct Over;

impl HeldToken for Over {
    fn held(&self) -> Option<Sequencer> {
        None
    }
}

/// A client that is ready has a place of the limit below it until it is called.
#[tokio::test]
async fn a_lease_that_is_over_takes_no_place_of_a_limit() {
    let limit = GlobalConcurrencyLimitLayer::new(1).layer(app(fence()));
    let mut over = AttachLayer::new(Over).layer(limit.clone());
    let error = poll_fn(|context| Service::<Request<Body>>::poll_ready(&mut over, context)).await.unwrap_err();
    assert!(matches!(error, AttachError::LeaseOver), "{error:?}");
    let sequencer = Sequencer::new(file(), token(34));
    let mut held = AttachLayer::new(sequencer).layer(limit);
    let ready = poll_fn(|context| Service::<Request<Body>>::poll_ready(&mut held, context)).now_or_never();
    assert!(ready.is_some_and(|ready| ready.is_ok()), "the lease that is over keeps the place");
    assert_eq!(held.call(to("/files/a")).await.unwrap().status(), 200);
    drop(over);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ran_out_is_over() {
    let fleet = Fleet::started().await;
    let lease = fleet.service().renew(false).build().unwrap().acquire(&file()).await.unwrap();
    assert_eq!(lease.held(), Some(lease.sequencer()));
    lease.lost().await;
    assert_eq!(lease.held(), None);
}

#[tokio::test]
async fn what_is_not_of_a_fence_stays_a_response() {
    async fn own(uri: Uri) -> Response<Body> {
        let (kind, text) = match uri.path() {
            "/problem" => (Problem::CONTENT_TYPE, r#"{"type":"about:blank","title":"t","status":400}"#),
            "/broken" => (Problem::CONTENT_TYPE, "{"),
            _ => ("text/plain", "no"),
        };
        let response = Response::builder().status(400).header(header::CONTENT_TYPE, kind);
        response.body(text.into()).unwrap()
    }
    let client = AttachLayer::new(Sequencer::new(named("a"), token(1)));
    let client = client.layer(Router::new().fallback(own));
    for (uri, expected) in [("/problem", "{\"type\":\"about:blank\""), ("/broken", "{"), ("/text", "no")] {
        let response = client.clone().oneshot(to(uri)).await.unwrap();
        assert_eq!(response.status(), 400);
        assert!(text(response).await.starts_with(expected), "{uri}");
    }
}

#[tokio::test]
async fn the_sequencer_belongs_to_the_request() {
    let app = app(fence());
    let client = AttachLayer::new(Sequencer::new(file(), token(34))).with_resource().layer(app.clone());
    assert_eq!(client.clone().oneshot(to("/files/a")).await.unwrap().status(), 200);
    let error = client.oneshot(to("/files/b")).await.unwrap_err();
    let AttachError::Refused(problem) = error else { panic!("{error:?}") };
    assert_eq!((problem.status, problem.kind.as_str()), (400, Problem::MALFORMED));
    assert!(problem.detail.contains("the request is about files/b"), "{}", problem.detail);

    let put = async |tokens: &[&str], sequencers: &[&str]| {
        let mut request = request("PUT", tokens);
        for value in sequencers {
            request.headers_mut().append(SEQUENCER, value.parse().unwrap());
        }
        ask(&app, request).await.status().as_u16()
    };
    assert_eq!(put(&[], &["34 files/a"]).await, 200);
    assert_eq!(put(&["34"], &["34 files/a"]).await, 200);
    assert_eq!(put(&["34"], &["35 files/a"]).await, 400);
    assert_eq!(put(&["35"], &["34 files/a"]).await, 400);
    assert_eq!(put(&[], &["34 files/a", "34 files/a"]).await, 400);
    for sequencer in ["34", "files/a 34", "34 files/%FF", "0 files/a"] {
        assert_eq!(put(&[], &[sequencer]).await, 400, "{sequencer}");
    }
    // Nothing of that has raised the mark.
    assert_eq!(put(&["34"], &[]).await, 200);
    let down = AttachLayer::new(Sequencer::new(file(), token(34))).layer(super::app(Fence::new(NoMarks::Unreachable)));
    let error = down.oneshot(to("/files/a")).await.unwrap_err();
    let AttachError::Refused(problem) = error else { panic!("{error:?}") };
    assert_eq!((problem.status, problem.retry_after), (503, Some(Duration::from_secs(1))));
}

/// Whoever guards the header of the token guards all ways to send one.
#[tokio::test]
async fn with_another_header_the_sequencer_alone_is_no_token() {
    let app = Router::new().fallback(async || "reached");
    let app = app.layer(layer(fence()).header(HeaderName::from_static("x-lease")));
    let put = async |method: &str, header: &str, value: &str| {
        let request = Request::builder().method(method).uri("/files/a").header(header, value);
        ask(&app, request.body(Body::empty()).unwrap()).await.status().as_u16()
    };
    assert_eq!(put("GET", "fencing-sequencer", "999999999999999 files/a").await, 200);
    assert_eq!(put("PUT", "fencing-sequencer", "999999999999999 files/a").await, 428);
    assert_eq!(put("PUT", "x-lease", "34").await, 200);
}

#[tokio::test]
async fn reqwest_sends_the_token_of_the_lease_and_tells_a_refusal_by_its_type() {
    let address = serve(app(fence())).await;
    let to = |path: &str| {
        let uri = format!("http://{address}{path}");
        Request::builder().method("PUT").uri(uri).body("one".to_owned()).unwrap()
    };
    let lock = lock::connect("memory:").await.unwrap();
    let lease = Arc::new(lock.acquire(&file()).await.unwrap());
    let client = reqwest::Client::new();
    let send = tower::service_fn(move |request: Request<String>| {
        let client = client.clone();
        async move { Ok::<_, reqwest::Error>(http::Response::from(client.execute(request.try_into()?).await?)) }
    });
    let older = AttachLayer::new(Arc::clone(&lease)).layer(send.clone());
    let answer = older.clone().oneshot(to("/files/a")).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, format!("files/a {}", lease.token()));
    // A token in the request is not that of the lease.
    let mut request = to("/files/a");
    attach(request.headers_mut(), token(1));
    assert_eq!(older.clone().oneshot(request).await.unwrap().status(), 200);

    let nowhere = Request::builder().uri("http://127.0.0.1:1/").body(String::new()).unwrap();
    let error = older.clone().oneshot(nowhere).await.unwrap_err();
    assert!(matches!(&error, AttachError::Service(error) if error.is_connect()), "{error:?}");

    let shown = lease.sequencer();
    drop((older, lease));
    let newer = Arc::new(lock.acquire(&file()).await.unwrap());
    AttachLayer::new(Arc::clone(&newer)).layer(send.clone()).oneshot(to("/files/a")).await.unwrap();
    // Somebody who was given the sequencer cannot know that it is over: the server does.
    let error = AttachLayer::new(shown).layer(send).oneshot(to("/files/a")).await.unwrap_err();
    assert_eq!(error.stale().unwrap().highest, newer.token());
    assert!(error.to_string().contains("is stale, high water"), "{error}");
}
