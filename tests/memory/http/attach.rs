//! The client side: what is sent under a lease, and what a refusal becomes; also above a client of the crate `reqwest`,
//! as docs/reference/http.md shows it.

use std::future::poll_fn;

use axum::http::Uri;
use fencing::http::{AttachError, AttachLayer, SEQUENCER};
use fencing::lock::{self, Lock};
use fencing::{HeldToken, Lease, Sequencer};
use tower::ServiceBuilder;
use tower::limit::GlobalConcurrencyLimitLayer;

use super::*;
use crate::driver::fleet::Fleet;

async fn lease(lock: &Arc<dyn Lock>, name: &str) -> Arc<Lease> {
    Arc::new(lock.acquire(&named(name)).await.unwrap())
}

fn to(uri: &str) -> Request<Body> {
    Request::builder().method("PUT").uri(uri).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn each_request_carries_the_token_until_the_lease_is_over() {
    let lock = lock::connect("memory:").await.unwrap();
    let client = |lease: Arc<Lease>, app: &Router| AttachLayer::new(lease).layer(app.clone());
    let app = app(fence());
    let first = lease(&lock, "files/a").await;
    let number = first.token();
    let one = client(Arc::clone(&first), &app);
    let answer = one.clone().oneshot(to("/files/a")).await.unwrap();
    assert_eq!(text(answer).await, format!("files/a {number}"));
    // A token in the request is not that of the lease.
    let mut request = to("/files/a");
    attach(request.headers_mut(), token(1));
    assert_eq!(one.clone().oneshot(request).await.unwrap().status(), 200);

    let shown = first.sequencer();
    drop((one, first));
    let second = lease(&lock, "files/a").await;
    client(Arc::clone(&second), &app).oneshot(to("/files/a")).await.unwrap();
    // Somebody who was given the sequencer cannot know that it is over: the server does.
    let error = AttachLayer::new(shown).layer(app.clone()).oneshot(to("/files/a")).await.unwrap_err();
    assert_eq!(error.stale().unwrap().highest, second.token());
    assert!(error.to_string().contains("is stale, high water"), "{error}");
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
    let down = AttachLayer::new(Sequencer::new(file(), token(34))).layer(super::app(Fence::new(NoMarks)));
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
async fn reqwest_sends_the_token_and_tells_a_refusal_by_its_type() {
    let fence = fence();
    let address = serve(app(fence.clone())).await;
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
    let older = ServiceBuilder::new().layer(AttachLayer::new(Arc::clone(&lease))).service(send);
    let answer = older.clone().oneshot(to("/files/a")).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, format!("files/a {}", lease.token()));

    // A newer token has been seen; the older client does not know it.
    let newer = Token::new(lease.token().get() + 1).unwrap();
    drop(fence.admit(&file(), newer).await.unwrap());
    let error = older.clone().oneshot(to("/files/a")).await.unwrap_err();
    assert_eq!(error.stale().unwrap().highest, newer, "{error}");

    let nowhere = Request::builder().uri("http://127.0.0.1:1/").body(String::new()).unwrap();
    let error = older.oneshot(nowhere).await.unwrap_err();
    assert!(matches!(&error, AttachError::Service(error) if error.is_connect()), "{error:?}");
}
