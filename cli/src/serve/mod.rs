//! `fencing serve`: leases over HTTP, for clients in any language. `table.rs` keeps them.

mod answers;
mod table;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::routing::{get, post};
use fencing::Resource;
use fencing::http::segments;
use fencing::lock::{BuildError, Lock, Released};
use http::header::{CONTENT_TYPE, ORIGIN};
use http::{HeaderMap, Method, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower_service::Service as _;

use self::table::{NotRenewed, Table};
use crate::args::ServeArgs;
use crate::duration::about;
use crate::exit::Failure;
use crate::listen::{Handler, HttpAnswer, Listener, Upload, answer, record_metrics, status, yaml};
use crate::lock::{ChosenLock, LockOptions};
use crate::signing::SigningKeys;

/// The routes of this process, and what it answers.
const OPENAPI: &str = include_str!("../../openapi/serve.yaml");
/// The longest body, in bytes, and how long it may take.
const MAX_BODY: usize = 4 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long what is still on its way to the servers may take at the end.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
const JSON: &str = "application/json";

/// What the requests share.
struct LeaseServer {
    lock: Arc<dyn Lock>,
    table: Arc<Table>,
    waiters: Semaphore,
    stop: CancellationToken,
    ttl: Duration,
    longest_ttl: Duration,
    longest_wait: Duration,
    keys: Option<SigningKeys>,
}

type Server = State<Arc<LeaseServer>>;

/// What a client asks for, in milliseconds.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Wish {
    ttl_ms: Option<u64>,
    wait_ms: u64,
}

/// Serves until a signal ends it, and returns the exit status.
pub(crate) async fn main(args: ServeArgs) -> Result<u8, Failure> {
    let recorder = record_metrics()?;
    let keys = args.signing_keys.as_deref().map(SigningKeys::open).transpose()?;
    // A client that sleeps shall lose its lease: only the client renews it.
    let terms = LockOptions {
        ttl: args.ttl,
        wait: args.longest_wait,
        at_least: Duration::ZERO,
        node_budget: args.node_budget,
        renew: false,
        holder: None,
    };
    let ChosenLock { lock, not_ready } = ChosenLock::open(&args.place, &terms).await?;
    if let Some(why) = not_ready {
        return Err(Failure::unavailable(why));
    }
    lock.with_ttl(args.longest_ttl).map_err(Failure::usage)?;
    let listener = Listener::bind(&args.listen).await?;
    let leases = LeaseServer {
        lock: Arc::clone(&lock),
        table: Table::new(args.leases),
        // Waiters never take the last connections: a renewal finds one.
        waiters: Semaphore::new(args.waiters.min(args.listen.connections.div_ceil(2))),
        stop: listener.stop.clone(),
        ttl: args.ttl,
        longest_ttl: args.longest_ttl,
        longest_wait: args.longest_wait,
        keys,
    };
    // A lease that is dropped is released, but its client works under it until its TTL.
    std::mem::forget(Arc::clone(&leases.table));
    let asked = Arc::clone(&lock);
    let ready = move || ready(Arc::clone(&asked));
    let metrics = move || std::future::ready(recorder.render());
    let status = status(ready, metrics, Some(OPENAPI), listener.stop.clone());
    let routes = Routes { routes: routes(leases), client_timeout: args.listen.client_timeout };
    let ended = listener.run(routes, status, std::future::ready(())).await;
    let _ = timeout(SETTLE_TIMEOUT, lock.settle()).await;
    ended
}

async fn ready(lock: Arc<dyn Lock>) -> Result<(), String> {
    let health = lock.health().await;
    let causes: Vec<String> = health.causes.iter().map(ToString::to_string).collect();
    let why = || format!("no quorum: {}", causes.join("; "));
    health.has_quorum().then_some(()).ok_or_else(why)
}

/// Counts what the routes answer.
#[derive(Clone)]
struct Routes {
    routes: Router,
    client_timeout: Duration,
}

impl Handler for Routes {
    async fn handle(&self, request: hyper::Request<Incoming>, _: SocketAddr) -> HttpAnswer {
        let kind = match (request.method(), request.uri().path().starts_with("/leases/")) {
            (&Method::POST, true) => "acquire",
            (&Method::GET, true) => "show",
            (&Method::PUT, true) => "renew",
            (&Method::DELETE, true) => "release",
            _ => "other",
        };
        let request = Upload::new(request, self.client_timeout, BODY_TIMEOUT);
        let answer = match is_from_a_page(request.headers()) {
            true => answers::from_a_page(),
            false => {
                let Ok(answer) = self.routes.clone().call(request).await;
                answer
            }
        };
        let status = answer.status().as_str().to_owned();
        let labels = [("request", kind.to_owned()), ("status", status)];
        metrics::counter!("fencing_serve_requests_total", &labels).increment(1);
        answer
    }
}

fn routes(leases: LeaseServer) -> Router {
    Router::new()
        .route("/leases/", post(acquire))
        .route("/leases/{*name}", post(acquire).get(show).put(renew).delete(release))
        .route("/health", get(health))
        .route("/openapi.yaml", get(async || yaml(OPENAPI)))
        .method_not_allowed_fallback(async || answers::wrong_method())
        .fallback(async || answers::not_found())
        .with_state(Arc::new(leases))
}

async fn acquire(State(leases): Server, request: Request) -> Result<HttpAnswer, HttpAnswer> {
    let resource = resource(request.uri().path()).map_err(|why| answers::malformed(&why))?;
    // Before the body: a slow one takes a connection as a waiter does.
    let Ok(_waiting) = leases.waiters.try_acquire() else {
        return Err(answers::overloaded("too many requests wait for locks; nothing was asked"));
    };
    let wish = wish(request).await?;
    let ttl = wish.ttl_ms.map_or(leases.ttl, Duration::from_millis);
    let wait = Duration::from_millis(wish.wait_ms);
    for (field, value, most) in
        [("ttl_ms", ttl, leases.longest_ttl), ("wait_ms", wait, leases.longest_wait)]
    {
        if value > most {
            let most = most.as_millis();
            return Err(answers::malformed(&format!("{field} is at most {most}")));
        }
    }
    let wrong = |error: BuildError| answers::malformed(&error.to_string());
    let lock = leases.lock.with_ttl(ttl).and_then(|lock| lock.with_wait(wait)).map_err(wrong)?;
    let Some(place) = leases.table.place() else {
        return Err(answers::unavailable("too many leases are out; nothing was asked"));
    };
    // If the client goes away, this is dropped, which releases.
    let acquired = async {
        match wait.is_zero() {
            true => lock.try_acquire(&resource).await,
            false => lock.acquire(&resource).await,
        }
    };
    let lease = leases.stop.run_until_cancelled(acquired).await;
    let stopping = || answers::unavailable("the service stops; nothing was acquired");
    let lease = lease.ok_or_else(stopping)?.map_err(|error| answers::not_acquired(&error))?;
    let kept = leases.table.keep(lease, ttl, place);
    let (shown, unread) = kept.map_err(|error| answers::unavailable(&error.to_string()))?;
    let answer = answers::lease(StatusCode::CREATED, &shown, leases.keys.as_ref());
    Ok(answer.map(|text| unread.until_read(text)))
}

async fn show(State(leases): Server, Path(id): Path<String>) -> HttpAnswer {
    match leases.table.show(&id).await {
        Some(lease) => answers::lease(StatusCode::OK, &lease, leases.keys.as_ref()),
        None => answers::no_lease(),
    }
}

async fn renew(State(leases): Server, Path(id): Path<String>) -> HttpAnswer {
    match leases.table.renew(&id).await {
        Ok(lease) => answers::lease(StatusCode::OK, &lease, leases.keys.as_ref()),
        Err(NotRenewed::Over(None)) => answers::no_lease(),
        Err(NotRenewed::Over(Some(loss))) => answers::lost(loss),
        Err(NotRenewed::Failed(left)) => answers::unavailable(&format!(
            "not renewed: too few servers answered; the lease lasts for another {}",
            about(left)
        )),
    }
}

async fn release(State(leases): Server, Path(id): Path<String>) -> HttpAnswer {
    match leases.table.release(&id).await {
        Some(Ok(Released::Released)) => {
            let mut empty = Response::default();
            *empty.status_mut() = StatusCode::NO_CONTENT;
            empty
        }
        Some(Ok(Released::Lapsed)) | None => answers::no_lease(),
        Some(Err(error)) => {
            tracing::warn!(%error, "release in doubt");
            answers::release_in_doubt()
        }
    }
}

async fn health(State(leases): Server) -> HttpAnswer {
    let health = leases.lock.health().await;
    let ready = health.has_quorum();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let (granting, needed) = (health.granting, health.needed);
    let text = json!({ "ready": ready, "granting": granting, "needed": needed });
    answer(status, JSON, text.to_string())
}

/// Reads the name in the path. It is as strict as the fence: one resource has one name.
fn resource(path: &str) -> Result<Resource, String> {
    let name = percent_decode_str(path.strip_prefix("/leases/").unwrap_or_default()).decode_utf8();
    let name = name.map_err(|_| "the name is not UTF-8".to_owned())?;
    segments(name.split('/')).map_err(|error| error.to_string())
}

/// Whether a browser sends this for a web page. This service has no pages, so each is foreign: one that is open in a
/// browser on the same machine reaches a loopback address, and its requests with simple bodies need no consent.
fn is_from_a_page(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").is_some_and(|site| site != "none");
    site || headers.contains_key(ORIGIN)
}

/// Reads what a client asks for.
async fn wish(request: Request) -> Result<Wish, HttpAnswer> {
    let (parts, body) = request.into_parts();
    let bytes = match Limited::new(body, MAX_BODY).collect().await {
        Ok(bytes) => bytes.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Err(answers::too_long(&format!("the body has more than {MAX_BODY} bytes")));
        }
        Err(error) => return Err(answers::malformed(&error.to_string())),
    };
    if bytes.is_empty() {
        return Ok(Wish::default());
    }
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case(JSON) {
        return Err(answers::not_json());
    }
    serde_json::from_slice(&bytes).map_err(|error| answers::malformed(&error.to_string()))
}
