mod answers;
mod clients;
mod events;
mod lease_server;
mod table;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Extension, Router};
use http::Method;
use tokio::sync::Semaphore;

use self::answers::{NOT_FOUND, WRONG_METHOD};
use self::clients::{Caller, Clients, Right};
use self::events::show_or_follow;
use self::lease_server::{LeaseServer, SharedServer, acquire, release, renew};
use self::table::Table;
use crate::duration;
use crate::exit::{Failure, Status};
use crate::listen::{Answers, HttpAnswer, Listen, Listener, bounded, count, record_metrics, yaml};
use crate::lock_service::{ChosenLock, LockArgs};
use crate::say;
use crate::signing::SigningKeys;

const OPENAPI: &str = include_str!("../../openapi/serve.yaml");
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
const JSON: &str = "application/json";
const SEE_ROUTES: &str = "see /openapi.yaml";

/// Hands out leases over HTTP, to clients in any language.
///
/// POST /leases/NAME acquires, PUT /leases/ID renews, DELETE /leases/ID releases; /openapi.yaml has the rest. A lease
/// that its client does not renew ends at its TTL. The answer has the token, also in the headers Fencing-Token and
/// Fencing-Sequencer: send one of them with every write that the lease is to protect.
///
/// With --signing-keys, each process with the same keys and the same servers renews and releases the leases of the
/// others: you may stop any of them, and a client may ask any of them.
///
/// Without --clients or --client-ca every program that reaches the port can lock everything. Web pages are refused.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    lock: LockArgs,
    /// Default TTL of a lease.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    ttl: Duration,
    /// The longest TTL that a client may ask for: a client that vanishes keeps its lock held for that long.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::parse)]
    longest_ttl: Duration,
    /// The longest time that a client may ask to wait for a lock.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::parse)]
    longest_wait: Duration,
    /// Signs its tokens, so that a fence with the keys accepts only tokens that were issued here (`fencing proxy
    /// --signing-keys`), and seals the ids of leases, so that other processes with the keys know them. A file with a
    /// line ID=KEY for each key, 64 hexadecimal digits or more. The first key signs. It is read again when it changes.
    #[arg(long, value_name = "FILE", env = "FENCING_SIGNING_KEYS")]
    signing_keys: Option<PathBuf>,
    /// Leases held at a time. Further requests get a 503.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = count)]
    leases: usize,
    /// Requests that may wait for a lock at a time, at most half of --connections. Further ones get a 429.
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = count)]
    waiters: usize,
    /// Which client may do what: a TOML file, read again when it changes. Each client has a table under its name, with
    ///
    /// token_sha256 = ["..."], the SHA-256 of its bearer token (printf %s "$TOKEN" | sha256sum), or several;
    /// resources = ["billing/", "report"], where a name that ends with a slash covers all names that begin with it;
    /// may = ["acquire"], and also "release" or "read" for the leases of others;
    /// and, if you like, its bounds: leases, waiters, requests_per_second (renewals and releases do not count).
    #[arg(long, value_name = "FILE", env = "FENCING_CLIENTS", verbatim_doc_comment)]
    clients: Option<PathBuf>,
    #[command(flatten)]
    listen: Listen,
}

pub(crate) async fn main(args: ServeArgs) -> Result<Status, Failure> {
    let (ttl, longest) = (duration::show(args.ttl), duration::show(args.longest_ttl));
    let too_long = format_args!("--ttl {ttl} is longer than --longest-ttl {longest}: give --ttl {longest} or less");
    Failure::usage_unless(args.ttl <= args.longest_ttl, too_long)?;
    let recorder = record_metrics()?;
    let keys = args.signing_keys.as_deref().map(SigningKeys::open).transpose()?;
    let clients = Clients::open(args.clients.as_deref())?;
    let needs_certificate = args.listen.tls.client_ca.is_some();
    if clients.is_anybody() && !needs_certificate && !args.listen.listen.ip().is_loopback() {
        say::error("warning: any client that reaches this address can lock everything: give --clients or --client-ca");
    }
    // A client that sleeps shall lose its lease: only the client renews it.
    let options = args.lock.options()?.ttl(args.ttl).wait(args.longest_wait).renew(false);
    let has_sessions = matches!(options.engine(), Ok("etcd" | "zookeeper"));
    // Redis nodes know the holder of a lock by this name too, whichever process renews it.
    let has_no_name = keys.is_some() && std::env::var_os("FENCING_HOLDER").is_none();
    let options = if has_no_name { options.holder("fencing-serve") } else { options };
    let chosen = ChosenLock::open(options).await?;
    if let Some(why) = &chosen.not_ready {
        return Err(Failure::unavailable(why));
    }
    chosen.lock.with_ttl(args.longest_ttl).map_err(Failure::usage)?;
    let listener = Listener::bind(&args.listen, recorder).await?;
    let table = Arc::<Table>::default();
    // A lease that is dropped is released, but its client works under it until its TTL.
    std::mem::forget(Arc::clone(&table));
    let asked = Arc::clone(&chosen.lock);
    let ready = async move || {
        let health = asked.health().await;
        let why = || format!("no lease is granted now: {}", say::listed(&health.causes, "; "));
        health.has_quorum().then_some(()).ok_or_else(why)
    };
    let routes = routes(Arc::new(LeaseServer {
        lock: Arc::clone(&chosen.lock),
        clients,
        table,
        lease_slots: Arc::new(Semaphore::new(args.leases)),
        // Waiters never take the last connections: a renewal finds one.
        waiter_slots: Arc::new(Semaphore::new(args.waiters.min(args.listen.bounds.connections.div_ceil(2)))),
        stop: listener.stop.clone(),
        has_sessions,
        keys,
        args,
    }));
    let ended = listener.run(Answers::new(routes), OPENAPI, ready, std::future::ready(())).await;
    chosen.settle().await;
    ended
}

/// Finds out who asks, counts what the routes answer, and bounds how long a body may take.
async fn counted(State(leases): SharedServer, request: Request, routes: Next) -> HttpAnswer {
    let kind = match (request.method(), request.uri().path().starts_with("/leases/")) {
        (&Method::POST, true) => "acquire",
        (&Method::GET, true) => "show",
        (&Method::PUT, true) => "renew",
        (&Method::DELETE, true) => "release",
        _ => "other",
    };
    let (mut request, _) = bounded(request, leases.args.listen.bounds.client_timeout.min(BODY_TIMEOUT), BODY_TIMEOUT);
    let answer = match leases.clients.find(request.headers()) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            routes.run(request).await
        }
        Err(refused) => refused.into_response(),
    };
    let status = answer.status().as_str().to_owned();
    metrics::counter!("fencing_serve_requests_total", "request" => kind, "status" => status).increment(1);
    answer
}

fn routes(leases: Arc<LeaseServer>) -> Router {
    let openapi = async |caller: Extension<Caller>| caller.require(Right::Read).map(|()| yaml(OPENAPI));
    Router::new()
        .route("/leases/", post(acquire))
        .route("/leases/{*name}", post(acquire).get(show_or_follow).put(renew).delete(release))
        .route("/openapi.yaml", get(openapi))
        .method_not_allowed_fallback(async || WRONG_METHOD.because(SEE_ROUTES))
        .fallback(async || NOT_FOUND.because(SEE_ROUTES))
        .layer(from_fn_with_state(Arc::clone(&leases), counted))
        .with_state(leases)
}
