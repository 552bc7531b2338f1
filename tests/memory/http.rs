//! The tower layer below axum and below a plain service.

mod acceptance;
mod admin;
mod attach;
mod ending;
mod grace;
mod issued;
mod layers;
mod names;
mod policy;
mod several;
mod stalled;
mod statuses;
mod tonic;
mod transaction;

use std::convert::Infallible;
use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::{MethodRouter, put};
use fencing::fence::{FenceError, Marks, MemoryMarks, Stale};
use fencing::http::{FenceLayer, Fenced, HEADER, Problem, Refusal, attach};
use fencing::{Fence, Resource, Token};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderName, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, StreamBody};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, Service, ServiceExt};

use crate::driver::fleet::begun;
use support::lease::{named, token};

fn fence() -> Fence {
    Fence::new(MemoryMarks::default())
}

fn file() -> Resource {
    named("files/a")
}

/// Marks in memory, before each of whose answers something comes, which lasts until then.
struct Behind<F>(Arc<MemoryMarks>, F);

fn marks_behind<F>(before: F) -> Behind<F> {
    Behind(Arc::default(), before)
}

/// Marks that need a connection of this pool.
fn pooled(pool: &Arc<Semaphore>) -> impl Marks + use<> {
    let pool = Arc::clone(pool);
    marks_behind(move || Arc::clone(&pool).acquire_owned())
}

impl<F, A> Marks for Behind<F>
where
    F: Fn() -> A + Send + Sync + 'static,
    A: Future<Output: Send> + Send + 'static,
{
    fn raise<'a>(&'a self, resource: &'a Resource, token: Token) -> BoxFuture<'a, Result<(), FenceError>> {
        Box::pin(async move {
            let _lasts = self.1().await;
            self.0.raise(resource, token).await
        })
    }

    fn highest<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Result<Option<Token>, FenceError>> {
        Box::pin(async move {
            let _lasts = self.1().await;
            self.0.highest(resource).await
        })
    }
}

/// Marks that can't be reached, or that refuse for good, as where a right is missing.
enum NoMarks {
    Unreachable,
    Refusing,
}

impl Marks for NoMarks {
    fn raise<'a>(&'a self, _: &'a Resource, _: Token) -> BoxFuture<'a, Result<(), FenceError>> {
        let error = match self {
            NoMarks::Unreachable => FenceError::Unreachable("secret-host is down".into()),
            NoMarks::Refusing => FenceError::Refused("secret-host: no right".into()),
        };
        ready(Err(error)).boxed()
    }
}

type Name = fn(&http::request::Parts) -> Result<Resource, fencing::ResourceError>;

/// The path names the resource.
fn layer(fence: Fence) -> FenceLayer<Name> {
    FenceLayer::new(fence, |parts| Resource::new(parts.uri.path().trim_start_matches('/')))
}

fn app(fence: Fence) -> Router {
    let write = |Fenced { resource, token, .. }: Fenced| async move { format!("{resource} {token}") };
    let read = |fenced: Option<Fenced>| async move { format!("{:?}", fenced.map(|f| f.token)) };
    behind(fence, put(write).get(read))
}

fn behind(fence: Fence, handler: MethodRouter) -> Router {
    Router::new().route("/files/{name}", handler).layer(layer(fence))
}

/// What a client of HTTP 1 sends: all of a request with a body of this length, or its beginning.
fn http_1(token: u64, length: usize, body: &str) -> String {
    format!(
        "PUT /files/a HTTP/1.1\r\nHost: x\r\nFencing-Token: {token}\r\n\
         Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

async fn http_2(address: SocketAddr) -> h2::client::SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// A service of one type, whatever its layers are.
type Boxed<B> = BoxCloneSyncService<Request<B>, Response<Body>, BoxError>;

fn boxed<B, S, R>(service: S) -> Boxed<B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    let service = service.map_response(|response: Response<R>| response.map(Body::new));
    BoxCloneSyncService::new(service.map_err(Into::into))
}

async fn ask(app: &Router, request: Request<Body>) -> Response<Body> {
    app.clone().oneshot(request).await.unwrap()
}

/// Sends a request without a body.
async fn send(app: &Router, method: &str, uri: &str, token: Option<&str>) -> Response<Body> {
    let mut request = request(method, token.as_slice());
    *request.uri_mut() = uri.parse().unwrap();
    ask(app, request).await
}

fn request(method: &str, tokens: &[&str]) -> Request<Body> {
    let mut request = Request::builder().method(method).uri("/files/a");
    for token in tokens {
        request = request.header("Fencing-Token", *token);
    }
    request.body(Body::empty()).unwrap()
}

/// The request of a client that speaks gRPC.
fn grpc(mut request: Request<Body>) -> Request<Body> {
    request.headers_mut().insert(header::CONTENT_TYPE, "application/grpc".parse().unwrap());
    request
}

async fn write(app: &Router, token: u64) -> Response<Body> {
    send(app, "PUT", "/files/a", Some(&token.to_string())).await
}

async fn text(response: Response<impl http_body::Body<Error: std::fmt::Debug>>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn problem(response: Response<Body>) -> Problem {
    let headers = response.headers().clone();
    Problem::read(&headers, text(response).await.as_bytes()).unwrap()
}

/// What a response with this status says.
async fn refused(response: Response<Body>, status: u16) -> Problem {
    assert_eq!(response.status(), status);
    problem(response).await
}

/// A handler that waits where the token is 33, until it is told to go on.
fn slow(layer: FenceLayer<Name>) -> (Router, Arc<Notify>) {
    let go = Arc::new(Notify::new());
    let wait = Arc::clone(&go);
    let handler = move |Fenced { token, .. }: Fenced| async move {
        if token.get() == 33 {
            wait.notified().await;
        }
        "done"
    };
    (Router::new().route("/files/{name}", put(handler)).layer(layer), go)
}
