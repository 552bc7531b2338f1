//! `fencing serve`: leases over HTTP, for clients in any language. `table.rs` keeps them, `clients.rs` says who may ask.

mod answers;
mod clients;
mod table;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Extension, Router};
use fencing::http::segments;
use fencing::lock::{BuildError, Health, LeaseLost, Lock, Released, RenewError};
use fencing::{Lease, Resource, Sequencer};
use http::header::{CONTENT_TYPE, ORIGIN};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::answers::{
    FORBIDDEN, IN_DOUBT, NO_LEASE, NOT_FOUND, NOT_JSON, OVERLOADED, TOO_LONG, UNAVAILABLE, WRONG_METHOD, no_lease,
};
use self::clients::{Caller, Clients, Denied, Right, Use};
use self::table::{Entry, Table};
use crate::duration::{self, about};
use crate::exit::Failure;
use crate::listen::{
    Answers, HttpAnswer, LastAnswer, Listen, Listener, MALFORMED, answer, bounded, count, record_metrics, status, yaml,
};
use crate::lock::{ChosenLock, LockArgs};
use crate::say;
use crate::signing::SigningKeys;

const OPENAPI: &str = include_str!("../../openapi/serve.yaml");
/// The longest body, in bytes, and how long it may take.
const MAX_BODY: usize = 4 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
const JSON: &str = "application/json";
const SEE_ROUTES: &str = "see /openapi.yaml";
const FROM_A_PAGE: &str = "web pages get no leases: a request with Origin or Sec-Fetch-Site is refused";

/// Hands out leases over HTTP, to clients in any language.
///
/// POST /leases/NAME acquires, PUT /leases/ID renews, DELETE /leases/ID releases; /openapi.yaml has the rest. A lease
/// that its client does not renew ends at its TTL. The answer has the token, also in the headers Fencing-Token and
/// Fencing-Sequencer: send one of them with every write that the lease is to protect.
///
/// When this process ends, the locks of its leases stay held until their TTL, and cannot be renewed. Without --clients
/// or --client-ca every program that reaches the port can lock everything. Web pages are refused.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    lock: LockArgs,
    /// Default TTL of a lease.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    ttl: Duration,
    /// The longest TTL that a client may ask for: a client that vanishes keeps a lock closed for that long.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::parse)]
    longest_ttl: Duration,
    /// The longest time that a client may ask to wait for a lock.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::parse)]
    longest_wait: Duration,
    /// Signs its tokens, so that a fence with the keys takes only tokens that were issued here (`fencing proxy
    /// --signing-keys`). A file with a line ID=KEY for each key, 64 hexadecimal digits or more: the first one signs,
    /// and the file is read again when it has changed.
    #[arg(long, value_name = "FILE", env = "FENCING_SIGNING_KEYS")]
    signing_keys: Option<PathBuf>,
    /// Leases held at a time. Further requests get a 503.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = count)]
    leases: usize,
    /// Requests that may wait for a lock at a time, at most half of --connections. Further ones get a 429.
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = count)]
    waiters: usize,
    /// Who may ask for what: a file in TOML, which is read again when it has changed. It has a table for each client,
    /// under its name, with
    ///
    /// token_sha256 = ["..."], the SHA-256 of its bearer token (printf %s "$TOKEN" | sha256sum), or several;
    /// resources = ["billing/", "report"], where a name with a slash at the end stands for all that begin with it;
    /// may = ["acquire"], and also "release" or "read" for the leases of others;
    /// and, if you like, its bounds: leases, waiters, requests_per_second (renewals and releases do not count).
    #[arg(long, value_name = "FILE", env = "FENCING_CLIENTS", verbatim_doc_comment)]
    clients: Option<PathBuf>,
    #[command(flatten)]
    listen: Listen,
}

struct LeaseServer {
    args: ServeArgs,
    lock: Arc<dyn Lock>,
    clients: Clients,
    table: Arc<Table>,
    waiters: Semaphore,
    health: LastAnswer<Health>,
    stop: CancellationToken,
    keys: Option<SigningKeys>,
}

type Server = State<Arc<LeaseServer>>;
type Id = Result<Path<String>, PathRejection>;

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct AcquireRequest {
    ttl_ms: Option<u64>,
    wait_ms: u64,
}

pub(crate) async fn main(args: ServeArgs) -> Result<u8, Failure> {
    if args.ttl > args.longest_ttl {
        let (ttl, longest) = (duration::show(args.ttl), duration::show(args.longest_ttl));
        return Err(Failure::usage(format_args!(
            "--ttl {ttl} is longer than --longest-ttl {longest}: give --ttl {longest} or less"
        )));
    }
    let recorder = record_metrics()?;
    let keys = args.signing_keys.as_deref().map(SigningKeys::open).transpose()?;
    let clients = Clients::open(args.clients.as_deref())?;
    if clients.is_anybody() && args.listen.is_open_to_all() {
        say::error("warning: whoever reaches this address can lock everything: give --clients or --client-ca");
    }
    // A client that sleeps shall lose its lease: only the client renews it.
    let options = args.lock.options()?.ttl(args.ttl).wait(args.longest_wait).renew(false);
    let chosen = ChosenLock::open(options).await?;
    if let Some(why) = &chosen.not_ready {
        return Err(Failure::unavailable(why));
    }
    chosen.lock.with_ttl(args.longest_ttl).map_err(Failure::usage)?;
    let listener = Listener::bind(&args.listen).await?;
    let table = Table::new(args.leases);
    // A lease that is dropped is released, but its client works under it until its TTL.
    std::mem::forget(Arc::clone(&table));
    let asked = Arc::clone(&chosen.lock);
    let ready = move || ready(Arc::clone(&asked));
    let status =
        status(recorder, ready, None, listener.stop.clone()).route("/openapi.yaml", get(async || yaml(OPENAPI)));
    let routes = routes(Arc::new(LeaseServer {
        lock: Arc::clone(&chosen.lock),
        clients,
        table,
        // Waiters never take the last connections: a renewal finds one.
        waiters: Semaphore::new(args.waiters.min(args.listen.connections.div_ceil(2))),
        health: LastAnswer::none(),
        stop: listener.stop.clone(),
        keys,
        args,
    }));
    let ended = listener.run(Answers::new(routes), status, std::future::ready(())).await;
    chosen.settle().await;
    ended
}

async fn ready(lock: Arc<dyn Lock>) -> Result<(), String> {
    let health = lock.health().await;
    let causes: Vec<String> = health.causes.iter().map(ToString::to_string).collect();
    let why = || format!("no quorum: {}", causes.join("; "));
    health.has_quorum().then_some(()).ok_or_else(why)
}

/// Finds out who asks, counts what the routes answer, and bounds how long a body may take.
async fn counted(State(leases): Server, request: Request, routes: Next) -> HttpAnswer {
    let kind = match (request.method(), request.uri().path().starts_with("/leases/")) {
        (&Method::POST, true) => "acquire",
        (&Method::GET, true) => "show",
        (&Method::PUT, true) => "renew",
        (&Method::DELETE, true) => "release",
        _ => "other",
    };
    let (mut request, _) = bounded(request, leases.args.listen.client_timeout, BODY_TIMEOUT);
    let caller = match is_from_a_page(request.headers()) {
        true => Err(FORBIDDEN.answer(FROM_A_PAGE)),
        false => leases.clients.find(request.headers()).map_err(HttpAnswer::from),
    };
    let answer = match caller {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            routes.run(request).await
        }
        Err(refusal) => refusal,
    };
    let status = answer.status().as_str().to_owned();
    let labels = [("request", kind.to_owned()), ("status", status)];
    metrics::counter!("fencing_serve_requests_total", &labels).increment(1);
    answer
}

fn routes(leases: Arc<LeaseServer>) -> Router {
    Router::new()
        .route("/leases/", post(acquire))
        .route("/leases/{*name}", post(acquire).get(show).put(renew).delete(release))
        .route("/health", get(health))
        .route("/openapi.yaml", get(openapi))
        .method_not_allowed_fallback(async || WRONG_METHOD.answer(SEE_ROUTES))
        .fallback(async || NOT_FOUND.answer(SEE_ROUTES))
        .layer(from_fn_with_state(Arc::clone(&leases), counted))
        .with_state(leases)
}

async fn acquire(
    State(leases): Server,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<HttpAnswer, HttpAnswer> {
    caller.require(Right::Acquire)?;
    let resource = resource(request.uri().path()).map_err(|why| MALFORMED.answer(why))?;
    caller.require_resource(&resource)?;
    caller.take_request()?;
    // Before the body: a slow one takes a connection as a waiter does.
    let _in_use = caller.count(Use::Waiters)?;
    let Ok(_waiting) = leases.waiters.try_acquire() else {
        return Err(OVERLOADED.answer("too many requests wait for locks; no lock was requested"));
    };
    let wanted = acquire_request(request).await?;
    let ttl = wanted.ttl_ms.map_or(leases.args.ttl, Duration::from_millis);
    let wait = Duration::from_millis(wanted.wait_ms);
    for (field, value, most) in [("ttl_ms", ttl, leases.args.longest_ttl), ("wait_ms", wait, leases.args.longest_wait)]
    {
        if value > most {
            let most = most.as_millis();
            return Err(MALFORMED.answer(format_args!("{field} is at most {most}")));
        }
    }
    let wrong = |error: BuildError| MALFORMED.answer(error);
    let lock = leases.lock.with_ttl(ttl).and_then(|lock| lock.with_wait(wait)).map_err(wrong)?;
    let place = leases.table.reserve(&caller)?;
    // If the client goes away, this is dropped, which releases.
    let acquired = async {
        match wait.is_zero() {
            true => lock.try_acquire(&resource).await,
            false => lock.acquire(&resource).await,
        }
    };
    let lease = leases.stop.run_until_cancelled(acquired).await;
    let stopping = || UNAVAILABLE.answer("the service is stopping; nothing was acquired");
    let lease = lease.ok_or_else(stopping)?.map_err(|error| answers::not_acquired(&error))?;
    let valid_for = lease.valid_for();
    let kept = leases.table.keep(lease, ttl, place);
    let (entry, unread) = kept.map_err(|error| UNAVAILABLE.answer(error))?;
    let answer = answers::lease(StatusCode::CREATED, &entry, valid_for, leases.keys.as_ref());
    Ok(answer.map(|text| unread.until_read(text)))
}

impl LeaseServer {
    /// Finds a lease of this client, or one of others to which it has the right.
    fn find(&self, caller: &Caller, id: Id, of_others: Option<Right>) -> Result<Arc<Entry>, Denied> {
        let right = of_others.filter(|right| caller.may(*right)).unwrap_or(Right::Acquire);
        caller.require(right)?;
        // No lease has an id that is not UTF-8.
        let id = id.map_or_else(|_| String::new(), |Path(id)| id);
        let entry = self.table.find(&id).ok_or(Denied::NoLease)?;
        if entry.client != caller.name() {
            let right = of_others.ok_or_else(|| Denied::Forbidden("it is the lease of another client".to_owned()))?;
            caller.require(right)?;
            caller.require_resource(&entry.sequencer.resource)?;
        }
        Ok(entry)
    }
}

async fn show(State(leases): Server, Extension(caller): Extension<Caller>, id: Id) -> Result<HttpAnswer, HttpAnswer> {
    let entry = leases.find(&caller, id, Some(Right::Read))?;
    caller.take_request()?;
    let lease = entry.lease.lock().await;
    let left = lease.as_ref().map(Lease::valid_for).filter(|left| !left.is_zero());
    let left = left.ok_or_else(no_lease)?;
    Ok(answers::lease(StatusCode::OK, &entry, left, leases.keys.as_ref()))
}

async fn renew(State(leases): Server, Extension(caller): Extension<Caller>, id: Id) -> Result<HttpAnswer, HttpAnswer> {
    let entry = leases.find(&caller, id, None)?;
    // Its client may have lost the right.
    caller.require_resource(&entry.sequencer.resource)?;
    let lease = entry.lease.lock().await;
    let lease = lease.as_ref().ok_or_else(no_lease)?;
    match lease.renew().await {
        Ok(left) => Ok(answers::lease(StatusCode::OK, &entry, left, leases.keys.as_ref())),
        Err(RenewError::Lost(LeaseLost { loss, .. })) => {
            Err(NO_LEASE.answer(format_args!("{loss}: stop the work, or acquire again")))
        }
        Err(error) => {
            tracing::warn!(%error, "lease not renewed");
            Err(UNAVAILABLE.answer(format_args!(
                "not renewed: too few servers answered; the lease lasts for another {}",
                about(lease.valid_for())
            )))
        }
    }
}

async fn release(
    State(leases): Server,
    Extension(caller): Extension<Caller>,
    id: Id,
) -> Result<HttpAnswer, HttpAnswer> {
    let entry = leases.find(&caller, id, Some(Right::Release))?;
    let entry = leases.table.remove(&entry.id).ok_or_else(no_lease)?;
    // A renewal may be in flight.
    let lease = entry.lease.lock().await.take().ok_or_else(no_lease)?;
    if entry.client != caller.name() {
        let Sequencer { resource, token } = &entry.sequencer;
        let (client, by) = (&entry.client, caller.name());
        tracing::warn!(client, by, %resource, %token, "lease released by another client");
    }
    match lease.release().await {
        Ok(Released::Released) => Ok(StatusCode::NO_CONTENT.into_response()),
        Ok(Released::Lapsed) => Err(no_lease()),
        Err(error) => {
            tracing::warn!(%error, "release in doubt");
            let why = "too few servers answered; the lock is free by the end of its TTL";
            Err(IN_DOUBT.answer(why))
        }
    }
}

async fn health(State(leases): Server, Extension(caller): Extension<Caller>) -> Result<HttpAnswer, HttpAnswer> {
    caller.require(Right::Read)?;
    let health = leases.health.or_ask(async || leases.lock.health().await).await;
    let ready = health.has_quorum();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let (granting, needed) = (health.granting, health.needed);
    let text = json!({ "ready": ready, "granting": granting, "needed": needed });
    Ok(answer(status, JSON, text.to_string()))
}

async fn openapi(Extension(caller): Extension<Caller>) -> Result<HttpAnswer, HttpAnswer> {
    caller.require(Right::Read)?;
    Ok(yaml(OPENAPI))
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

async fn acquire_request(request: Request) -> Result<AcquireRequest, HttpAnswer> {
    let (parts, body) = request.into_parts();
    let bytes = match Limited::new(body, MAX_BODY).collect().await {
        Ok(bytes) => bytes.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Err(TOO_LONG.answer(format_args!("the body has more than {MAX_BODY} bytes")));
        }
        Err(error) => return Err(MALFORMED.answer(error)),
    };
    if bytes.is_empty() {
        return Ok(AcquireRequest::default());
    }
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case(JSON) {
        return Err(NOT_JSON.answer("the body must be JSON: send Content-Type: application/json"));
    }
    serde_json::from_slice(&bytes).map_err(|error| MALFORMED.answer(error))
}
