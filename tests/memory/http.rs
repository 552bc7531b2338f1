//! The tower layer below axum and below a plain service.

mod answers;
mod ending;
mod grace;
mod layers;
mod names;
mod stalled;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::put;
use fencing::fence::{FenceError, Marks, MarksError, MemoryMarks, Stale};
use fencing::http::{FenceLayer, Fenced, HEADER, Problem, Refusal, Require, attach};
use fencing::{Fence, Resource, Token};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderName, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, StreamBody};
use tokio::sync::Notify;
use tower::{Layer, Service, ServiceExt};

fn fence() -> Fence {
    Fence::new(MemoryMarks::default())
}

fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

fn layer(
    fence: Fence,
) -> FenceLayer<impl Fn(&http::request::Parts) -> Result<Resource, fencing::ResourceError> + Clone>
{
    FenceLayer::new(fence, |parts: &http::request::Parts| {
        Resource::new(parts.uri.path().trim_start_matches('/'))
    })
}

fn app(fence: Fence) -> Router {
    let write =
        |Fenced { resource, token, .. }: Fenced| async move { format!("{resource} {token}") };
    let read = |fenced: Option<Fenced>| async move { format!("{:?}", fenced.map(|f| f.token)) };
    Router::new().route("/files/{name}", put(write).get(read)).layer(layer(fence))
}

fn request(method: &str, tokens: &[&str]) -> Request<Body> {
    let mut request = Request::builder().method(method).uri("/files/a");
    for token in tokens {
        request = request.header("Fencing-Token", *token);
    }
    request.body(Body::empty()).unwrap()
}

async fn text(response: Response<impl http_body::Body<Error: std::fmt::Debug>>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn problem(response: Response<Body>) -> Problem {
    let headers = response.headers().clone();
    Problem::read(&headers, text(response).await.as_bytes()).unwrap()
}

#[tokio::test]
async fn the_handler_gets_what_was_admitted() {
    let app = app(fence());
    let response = app.clone().oneshot(request("PUT", &["34"])).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(text(response).await, "files/a 34");
    let response = app.clone().oneshot(request("GET", &[])).await.unwrap();
    assert_eq!(text(response).await, "None");
    let mut read = request("GET", &[]);
    attach(read.headers_mut(), token(35));
    assert_eq!(text(app.clone().oneshot(read).await.unwrap()).await, "Some(Token(35))");
    // The read has sealed.
    let response = app.oneshot(request("PUT", &["34"])).await.unwrap();
    assert_eq!(response.status(), StatusCode::PRECONDITION_FAILED);
}

#[tokio::test]
async fn refusals_are_problems_that_a_client_can_read() {
    let app = app(fence());
    app.clone().oneshot(request("PUT", &["34"])).await.unwrap();

    let response = app.clone().oneshot(request("PUT", &["33"])).await.unwrap();
    assert_eq!(response.status(), 412);
    assert!(matches!(response.extensions().get(), Some(Refusal::Stale(_))));
    let found = problem(response).await;
    let resource = Resource::new("files/a").unwrap();
    let stale = Stale::check(&resource, token(33), Some(token(34)));
    assert_eq!(found.stale(), stale.err());
    assert_eq!(found.detail, "token 33 of files/a is stale, high water 34");

    let response = app.clone().oneshot(request("PUT", &[])).await.unwrap();
    assert_eq!(response.status(), 428);
    assert_eq!(problem(response).await.kind, Problem::MISSING);

    let bad: &[&[&str]] = &[
        &[""],
        &["0"],
        &["-1"],
        &["+1"],
        &["01"],
        &["1 2"],
        &["34, 35"],
        &["34;a=b"],
        &["1.0"],
        &["1000000000000000"],
        &["\u{e9}"],
        &["33", "34"],
        &["34", "34"],
    ];
    for tokens in bad {
        for method in ["PUT", "GET"] {
            let response = app.clone().oneshot(request(method, tokens)).await.unwrap();
            assert_eq!(response.status(), 400, "{tokens:?}");
            assert_eq!(problem(response).await.kind, Problem::MALFORMED);
        }
    }
}

#[tokio::test]
async fn a_resource_that_is_none_is_a_bad_request() {
    let app = Router::new().fallback(async || "reached").layer(layer(fence()));
    let request = Request::builder().method("PUT").uri("/").header(HEADER, "1");
    let response = app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 400);
    assert!(problem(response).await.detail.contains("this one is empty"));
}

#[tokio::test]
async fn header_policy_and_what_is_told_can_be_set() {
    let name = HeaderName::from_static("x-generation");
    let layer = layer(fence()).header(name).require(Require::Always).hide_highest();
    let app = Router::new().fallback(async || "reached").layer(layer);
    let send = |value: &'static str| {
        let request = Request::builder().uri("/files/a").header("x-generation", value);
        app.clone().oneshot(request.body(Body::empty()).unwrap())
    };
    assert_eq!(send("34").await.unwrap().status(), 200);
    let response = send("33").await.unwrap();
    assert_eq!(response.status(), 412);
    let body = text(response).await;
    assert!(!body.contains("34") && !body.contains("highest"), "{body}");
    let response = app.clone().oneshot(request("GET", &["34"])).await.unwrap();
    assert_eq!(response.status(), 428);
    assert!(problem(response).await.detail.contains("x-generation"));
}

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

#[tokio::test]
async fn full_marks_are_not_to_be_tried_again() {
    let app = app(Fence::new(MemoryMarks::new(0)));
    let response = app.oneshot(request("PUT", &["1"])).await.unwrap();
    assert_eq!(response.status(), 503);
    assert!(!response.headers().contains_key(header::RETRY_AFTER));
}

struct NoMarks;

impl Marks for NoMarks {
    fn raise<'a>(&'a self, _: &'a Resource, _: Token) -> BoxFuture<'a, Result<(), MarksError>> {
        ready(Err(MarksError::Unreachable("secret-host refused".into()))).boxed()
    }
}

#[tokio::test]
async fn unreachable_marks_let_nobody_pass_and_say_little() {
    let response = app(Fence::new(NoMarks)).oneshot(request("PUT", &["34"])).await.unwrap();
    assert_eq!(response.status(), 503);
    assert!(response.headers().contains_key(header::RETRY_AFTER));
    let body = text(response).await;
    assert!(!body.contains("secret-host"), "{body}");
}

/// A handler that waits, and counts how many of it run.
fn slow(fence: Fence) -> (Router, Arc<Notify>, Arc<AtomicUsize>) {
    struct Running(Arc<AtomicUsize>);
    impl Drop for Running {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let (go, running) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (wait, count) = (Arc::clone(&go), Arc::clone(&running));
    let handler = move |Fenced { token, .. }: Fenced| async move {
        count.fetch_add(1, Ordering::SeqCst);
        let _running = Running(Arc::clone(&count));
        if token.get() == 33 {
            wait.notified().await;
        }
        count.load(Ordering::SeqCst).to_string()
    };
    (Router::new().route("/files/{name}", put(handler)).layer(layer(fence)), go, running)
}

#[tokio::test(start_paused = true)]
async fn a_newer_request_reaches_the_handler_when_the_older_has_ended() {
    let (app, go, _) = slow(fence());
    let mut older = Box::pin(app.clone().oneshot(request("PUT", &["33"])));
    assert!((&mut older).now_or_never().is_none());
    let mut newer = Box::pin(app.clone().oneshot(request("PUT", &["34"])));
    assert!((&mut newer).now_or_never().is_none());
    go.notify_one();
    let older = older.await.unwrap();
    assert!((&mut newer).now_or_never().is_none(), "the older response is not sent yet");
    assert_eq!(text(older).await, "1");
    assert_eq!(text(newer.await.unwrap()).await, "1");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_lets_the_newer_one_in() {
    let (app, _, running) = slow(fence());
    let mut older = Box::pin(app.clone().oneshot(request("PUT", &["33"])));
    assert!((&mut older).now_or_never().is_none());
    drop(older);
    assert_eq!(running.load(Ordering::SeqCst), 0);
    assert_eq!(app.oneshot(request("PUT", &["34"])).await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_drops_older_requests_answers_them_as_in_doubt() {
    let (app, _, running) = slow(fence().drop_older());
    let older = tokio::spawn(app.clone().oneshot(request("PUT", &["33"])));
    tokio::task::yield_now().await;
    assert_eq!(running.load(Ordering::SeqCst), 1);
    let newer = app.oneshot(request("PUT", &["34"])).await.unwrap();
    assert_eq!(text(newer).await, "1", "they never ran side by side");
    let older = older.await.unwrap().unwrap();
    // It was with its handler: whether that had written is not for the layer to say.
    assert_eq!(older.status(), 503);
    assert!(older.headers().get("retry-after").is_none(), "of no use");
    let found = problem(older).await;
    assert_eq!((found.kind.as_str(), found.stale()), (Problem::SUPERSEDED, None));
    assert_eq!((found.presented, found.highest), (Some(token(33)), Some(token(34))));
}

/// Its write is done when the newer token comes, and only its answer is not told yet.
#[tokio::test(start_paused = true)]
async fn an_older_request_that_has_ended_is_answered_as_it_ended() {
    let written = Arc::new(tokio::sync::Notify::new());
    let handler = {
        let written = Arc::clone(&written);
        move |Fenced { .. }: Fenced| {
            let written = Arc::clone(&written);
            async move { written.notified().await }
        }
    };
    let fence = fence().drop_older();
    let app = Router::new().route("/files/{name}", put(handler)).layer(layer(fence.clone()));
    let mut older = Box::pin(app.oneshot(request("PUT", &["33"])));
    assert!((&mut older).now_or_never().is_none());
    written.notify_one();
    let resource = Resource::new("files/a").unwrap();
    let mut newer = Box::pin(fence.admit(&resource, token(34)));
    assert!((&mut newer).now_or_never().is_none(), "the older one is in flight");
    assert_eq!(older.await.unwrap().status(), 200);
    assert!(newer.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_older_request_that_never_ends_is_a_503_for_the_newer() {
    let (app, _, _) = slow(fence().limit(Duration::from_secs(1)));
    let mut older = Box::pin(app.clone().oneshot(request("PUT", &["33"])));
    assert!((&mut older).now_or_never().is_none());
    let response = app.oneshot(request("PUT", &["34"])).await.unwrap();
    assert_eq!(response.status(), 503);
    assert!(problem(response).await.detail.contains("a request with token 33"));
}

/// A response body that streams is part of its request.
#[tokio::test(start_paused = true)]
async fn a_streaming_response_is_in_flight_until_its_end() {
    for drops in [false, true] {
        let fence = if drops { fence().drop_older() } else { fence() };
        let handler = |Fenced { token, .. }: Fenced| async move {
            let first = futures_util::stream::iter([Ok::<_, Infallible>(http_body::Frame::data(
                Bytes::from_static(b"begin "),
            ))]);
            let stream: futures_util::stream::BoxStream<'static, _> = if token.get() == 33 {
                Box::pin(futures_util::StreamExt::chain(first, futures_util::stream::pending()))
            } else {
                Box::pin(first)
            };
            Body::new(StreamBody::new(stream))
        };
        let app = Router::new().route("/files/{name}", put(handler)).layer(layer(fence));
        let older = app.clone().oneshot(request("PUT", &["33"])).await.unwrap();
        let mut body = older.into_body();
        assert!(body.frame().await.unwrap().is_ok());
        let mut newer = Box::pin(app.clone().oneshot(request("PUT", &["34"])));
        assert!((&mut newer).now_or_never().is_none());
        if drops {
            assert!(body.frame().await.unwrap().is_err(), "cut off");
        }
        drop(body);
        assert_eq!(text(newer.await.unwrap()).await, "begin ");
    }
}

/// A service that must be polled ready before each call, as tower asks.
struct Strict {
    ready: bool,
    busy: Arc<AtomicUsize>,
}

impl Clone for Strict {
    fn clone(&self) -> Strict {
        Strict { ready: false, busy: Arc::clone(&self.busy) }
    }
}

impl Service<Request<String>> for Strict {
    type Response = Response<http_body_util::Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.busy.load(Ordering::SeqCst) > 0 {
            self.busy.fetch_sub(1, Ordering::SeqCst);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called before it was ready");
        ready(Ok(Response::new(request.into_body().into())))
    }
}

#[tokio::test]
async fn the_readied_service_is_the_one_called_and_back_pressure_holds() {
    let busy = Arc::new(AtomicUsize::new(2));
    let strict = Strict { ready: false, busy: Arc::clone(&busy) };
    let mut service = layer(fence()).layer(strict);
    for number in 1..5 {
        let unready = futures_util::future::poll_fn(|context| {
            Poll::Ready(service.poll_ready(context).is_pending())
        });
        assert_eq!(unready.await, number == 1);
        let request = Request::builder().method("PUT").uri("/a").header(HEADER, number);
        let service = service.ready().await.unwrap();
        let response = service.call(request.body("hello".to_owned()).unwrap()).await.unwrap();
        assert_eq!(text(response).await, "hello");
    }
}

#[test]
fn a_problem_that_is_none_is_an_error() {
    let mut headers = http::HeaderMap::new();
    assert!(Problem::read(&headers, b"{}").is_err());
    let kind = "application/problem+json; charset=utf-8".parse().unwrap();
    headers.insert(header::CONTENT_TYPE, kind);
    for bad in ["", "{}", "[]", r#"{"type":"x","title":"y","status":412,"highest":0}"#, "\u{0}"] {
        assert!(Problem::read(&headers, bad.as_bytes()).is_err(), "{bad}");
    }
    let foreign = r#"{"type":"about:blank","title":"y","status":404,"balance":30}"#;
    assert!(!Problem::read(&headers, foreign.as_bytes()).unwrap().is_stale());
}

/// Asks, while the request is being dropped, whether a newer one would be let in.
struct Probe(Fence, Arc<AtomicUsize>);

impl Drop for Probe {
    fn drop(&mut self) {
        let resource = Resource::new("a").unwrap();
        let admitted = self.0.admit(&resource, token(34)).now_or_never().is_some();
        self.1.store(if admitted { 2 } else { 1 }, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_has_ended_before_a_newer_one_is_let_in() {
    let (fence, seen) = (fence(), Arc::new(AtomicUsize::new(0)));
    let (probed, count) = (fence.clone(), Arc::clone(&seen));
    let inner = tower::service_fn(move |_: Request<()>| {
        let probe = Probe(probed.clone(), Arc::clone(&count));
        async move {
            let _probe = probe;
            std::future::pending::<()>().await;
            Ok::<_, Infallible>(Response::new(http_body_util::Full::<Bytes>::default()))
        }
    });
    let request = Request::builder().method("PUT").uri("/a").header(HEADER, 33);
    let mut older = Box::pin(layer(fence).layer(inner).oneshot(request.body(()).unwrap()));
    assert!((&mut older).now_or_never().is_none());
    drop(older);
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

/// The check stands inside the handler's transaction, and `?` answers what it says.
#[tokio::test]
async fn a_handler_answers_the_errors_of_its_own_transaction() {
    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1);
    let pool = pool.connect("sqlite::memory:").await.unwrap();
    fencing::sql::migrate(&pool).await.unwrap();
    let (marks, body) = (pool.clone(), "SELECT secret FROM nowhere");
    let write = move |Fenced { resource, token, .. }: Fenced| {
        let pool = pool.clone();
        async move {
            let mut tx = fencing::sql::begin(&pool, &resource, token).await?;
            if token.get() > 34 {
                sqlx::query(body).execute(&mut *tx).await?;
            }
            tx.commit().await?;
            Ok::<_, Refusal>("written")
        }
    };
    let app = |fence| Router::new().route("/files/{name}", put(write.clone())).layer(layer(fence));
    let app = || app(fence());
    assert_eq!(app().oneshot(request("PUT", &["34"])).await.unwrap().status(), 200);
    // Another process: its fence has seen nothing.
    let response = app().oneshot(request("PUT", &["33"])).await.unwrap();
    assert_eq!(response.status(), 412);
    let found = problem(response).await.stale().expect("it is stale");
    assert_eq!(found.highest, token(34));

    let response = app().oneshot(request("PUT", &["35"])).await.unwrap();
    assert_eq!(response.status(), 503);
    assert!(response.headers().contains_key(header::RETRY_AFTER));
    let Some(Refusal::Failed(cause)) = response.extensions().get() else { panic!("no cause") };
    let cause: &(dyn std::error::Error + 'static) = &**cause;
    assert!(cause.downcast_ref::<fencing::sql::AdmitError>().is_some(), "{cause:?}");
    let found = problem(response).await;
    assert_eq!(found.kind, Problem::UNAVAILABLE);
    assert!(!found.detail.contains("nowhere"), "{}", found.detail);
    let highest = fencing::sql::highest(&marks, &Resource::new("files/a").unwrap()).await.unwrap();
    assert_eq!(highest, Some(token(34)), "35 was rolled back");
}

#[test]
fn without_a_tokio_runtime_requests_are_refused_and_nothing_panics() {
    let response = app(fence()).oneshot(request("PUT", &["34"])).now_or_never().unwrap().unwrap();
    assert_eq!(response.status(), 503);
    assert!(!response.headers().contains_key(header::RETRY_AFTER));
    let refusal: &Refusal = response.extensions().get().unwrap();
    assert!(refusal.to_string().starts_with("no tokio runtime"), "{refusal}");
}
