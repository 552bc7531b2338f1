//! A network that loses requests, loses answers, and delivers requests twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::Response;
use fencing::object::ObjectError;
use object_store::ObjectStore;
use object_store::path::Path;

use super::stores::{Kind, open, token};

struct Proxy {
    client: reqwest::Client,
    server: String,
    random: std::sync::Mutex<fastrand::Rng>,
}

impl Proxy {
    /// Starts one with these faults, and returns its URL in place of the server's.
    async fn start(server: &str, router: impl FnOnce(Arc<Proxy>) -> Router) -> String {
        let origin = server.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let client = reqwest::Client::builder().no_proxy().build().expect("it is complete");
        let random = fastrand::Rng::with_seed(33).into();
        let router = router(Arc::new(Proxy { client, server: origin.clone(), random }));
        tokio::spawn(async { axum::serve(listener, router).await });
        server.replacen(&origin, &format!("http://{address}"), 1)
    }

    async fn send(&self, method: &Method, uri: &Uri, headers: &HeaderMap, body: &Bytes) -> Response {
        let url = format!("{}{}", self.server, uri.path_and_query().expect("it has a path"));
        let request = self.client.request(method.clone(), url).headers(headers.clone()).body(body.clone());
        let answer = request.send().await.expect("the server answers");
        let (status, headers) = (answer.status(), answer.headers().clone());
        let mut response = Response::new(Body::from(answer.bytes().await.expect("the server answers")));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response.headers_mut().remove(header::TRANSFER_ENCODING);
        response
    }
}

async fn pass(State(proxy): State<Arc<Proxy>>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let send = || proxy.send(&method, &uri, &headers, &body);
    let chance = proxy.random.lock().expect("nobody panics with it").u8(0..12);
    match chance {
        0 => cut(),
        1 => {
            send().await;
            cut()
        }
        // The client repeats it.
        2 => {
            send().await;
            answer(StatusCode::SERVICE_UNAVAILABLE)
        }
        3 => {
            send().await;
            send().await
        }
        _ => send().await,
    }
}

fn answer(status: StatusCode) -> Response {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = status;
    answer
}

/// Ends the connection without an answer: its task ends.
fn cut() -> Response {
    std::panic::resume_unwind(Box::new("cut"))
}

/// Repeats what is in doubt, as the error says.
async fn until_sure<F: Future<Output = Result<(), ObjectError>>>(mut write: impl FnMut() -> F) {
    for _ in 0..1_000 {
        match write().await {
            Ok(()) => return,
            Err(ObjectError::InDoubt { .. } | ObjectError::Store(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("a thousand times in doubt");
}

async fn no_stale_write_gets_through(kind: Kind) {
    let bucket = kind.bucket();
    let store = kind.at(&kind.url(), &bucket);
    let through = Proxy::start(&kind.url(), |proxy| Router::new().fallback(pass).with_state(proxy)).await;
    let through = kind.at(&through, &bucket);
    let direct = open(&store).await;
    let (old, new) = (until_open(&through).await, until_open(&through).await);
    let path = Path::from("a");
    for round in 1..=60_u64 {
        let (older, newer) = (token(2 * round - 1), token(2 * round));
        // It may be in doubt.
        let _ = old.put(&path, older, format!("old {round}").into()).await;
        until_sure(|| new.claim(&path, newer)).await;
        let late = async {
            let late = old.put(&path, older, format!("late {round}").into()).await;
            assert!(late.is_err(), "a stale write counts as done in round {round}");
        };
        tokio::join!(late, until_sure(|| new.put(&path, newer, format!("new {round}").into())));
        assert_eq!(direct.get(&path).await.expect("it is there"), format!("new {round}"));
    }
}

/// The test of the store may lose a request as well.
async fn until_open(store: &Arc<dyn ObjectStore>) -> fencing::object::ObjectFence {
    for _ in 0..100 {
        if let Ok(fence) = fencing::object::ObjectFence::open(Arc::clone(store)).await {
            return fence;
        }
    }
    panic!("it does not open");
}

#[tokio::test]
async fn no_stale_write_gets_through_to_moto_or_azurite() {
    tokio::join!(no_stale_write_gets_through(Kind::Moto), no_stale_write_gets_through(Kind::Azurite));
}

/// The first write of `doubt` is applied, and its answer is lost. What comes later is not allowed.
async fn expire(
    State((proxy, puts)): State<(Arc<Proxy>, Arc<AtomicUsize>)>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let counts = method == Method::PUT && uri.path().ends_with("/doubt");
    match counts.then(|| puts.fetch_add(1, Ordering::Relaxed)) {
        None => proxy.send(&method, &uri, &headers, &body).await,
        Some(0) => {
            proxy.send(&method, &uri, &headers, &body).await;
            answer(StatusCode::SERVICE_UNAVAILABLE)
        }
        Some(_) => answer(StatusCode::FORBIDDEN),
    }
}

/// The client of the store repeats a write, and the credentials have expired meanwhile.
async fn a_repetition_that_is_not_allowed_is_in_doubt(kind: Kind) {
    let bucket = kind.bucket();
    let direct = open(&kind.at(&kind.url(), &bucket)).await;
    let router = |proxy| Router::new().fallback(expire).with_state((proxy, Arc::default()));
    let through = Proxy::start(&kind.url(), router).await;
    let fence = open(&kind.at(&through, &bucket)).await;
    let path = Path::from("doubt");
    let put = fence.put(&path, token(33), "written".into()).await;
    assert!(matches!(put, Err(ObjectError::InDoubt { .. })), "{put:?}");
    assert_eq!(direct.get(&path).await.expect("it is there"), "written");
    // The first answer to a write that was sent once is a plain no.
    let put = fence.put(&path, token(33), "refused".into()).await;
    assert!(matches!(put, Err(ObjectError::Store(object_store::Error::PermissionDenied { .. }))), "{put:?}");
}

#[tokio::test]
async fn credentials_expire_at_moto_and_azurite() {
    let in_doubt = a_repetition_that_is_not_allowed_is_in_doubt;
    tokio::join!(in_doubt(Kind::Moto), in_doubt(Kind::Azurite));
}
