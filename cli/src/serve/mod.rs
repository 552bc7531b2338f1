//! `fencing serve`: leases over HTTP, for clients in any language. `table.rs` keeps them.

mod answers;
mod table;
mod told;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fencing::Resource;
use fencing::http::segments;
use fencing::lock::{BuildError, Lock, Released};
use futures_util::FutureExt;
use http::header::{CONTENT_TYPE, ORIGIN};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use self::table::{NotRenewed, Table};
use self::told::{Told, Unread};
use crate::duration::about;
use crate::listen::{
    Answer, Handler, JSON, Listener, Ready, Status, Upload, answer, record_metrics,
};
use crate::lock::{Service, Terms};
use crate::signing::Keys;
use crate::{args, exit, say};

/// The routes of this process, and what it answers.
const OPENAPI: &str = include_str!("../../openapi/serve.yaml");
/// The longest body, in bytes, and how long it may take.
const BODY: usize = 4 << 10;
const BODY_WITHIN: Duration = Duration::from_secs(10);
/// How long what is still on its way to the servers may take at the end.
const LAST: Duration = Duration::from_secs(2);

/// What the requests share.
#[derive(Clone)]
struct Serve {
    lock: Arc<dyn Lock>,
    table: Arc<Table>,
    waiters: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
    client_timeout: Duration,
    ttl: Duration,
    longest_ttl: Duration,
    longest_wait: Duration,
    keys: Option<Arc<Keys>>,
}

/// What a client asks for, in milliseconds.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Wish {
    ttl_ms: Option<u64>,
    wait_ms: u64,
}

/// Serves until a signal ends it, and returns the exit status.
pub(crate) async fn main(args: args::Serve) -> u8 {
    match run(&args).await {
        Ok(status) => status,
        Err((status, text)) => {
            say::error(say::without_passwords(&text));
            status
        }
    }
}

async fn run(args: &args::Serve) -> Result<u8, (u8, String)> {
    let failed = |text: String| (exit::FAILED, text);
    let recorder = record_metrics().map_err(|error| failed(error.to_string()))?;
    let keys = args.signing_keys.as_deref().map(Keys::open).transpose();
    let keys = keys.map_err(|text| (exit::USAGE, text))?.map(Arc::new);
    let (ttl, wait, node_budget) = (args.ttl, args.longest_wait, args.node_budget);
    // A client that sleeps shall lose its lease: nobody renews for it.
    let (at_least, holder) = (Duration::ZERO, None);
    let terms = Terms { ttl, wait, at_least, node_budget, renew: false, holder };
    let opened = Service::open(&args.place, &terms).await.map_err(|text| (exit::USAGE, text))?;
    let (lock, not_ready) = opened.into_lock();
    if let Some(why) = not_ready {
        return Err((exit::UNAVAILABLE, why));
    }
    for ttl in [args.ttl, args.longest_ttl] {
        lock.with_ttl(ttl).map_err(|error| (exit::USAGE, error.to_string()))?;
    }
    let listener = Listener::bind(&args.listen).await.map_err(failed)?;
    let asked = Arc::clone(&lock);
    let ready: Ready = Arc::new(move || {
        let asked = Arc::clone(&asked);
        async move {
            let health = asked.health().await;
            let causes: Vec<String> = health.causes.iter().map(ToString::to_string).collect();
            let why = || format!("no quorum: {}", causes.join("; "));
            health.has_quorum().then_some(()).ok_or_else(why)
        }
        .boxed()
    });
    let status = Status { ready, recorder, openapi: Some(OPENAPI), stopping: listener.stopping() };
    let serve = Serve {
        lock: Arc::clone(&lock),
        table: Table::new(args.leases),
        // Waiters never take the last connections: a renewal finds one.
        waiters: Arc::new(Semaphore::new(args.waiters.min(args.listen.connections.div_ceil(2)))),
        stopping: listener.stopping(),
        client_timeout: args.listen.client_timeout,
        ttl: args.ttl,
        longest_ttl: args.longest_ttl,
        longest_wait: args.longest_wait,
        keys,
    };
    // A lease that is dropped is released, but its client works under it until its TTL.
    std::mem::forget(Arc::clone(&serve.table));
    let status = listener.run(serve, status, std::future::ready(())).await;
    let _ = timeout(LAST, lock.settle()).await;
    Ok(status)
}

impl Serve {
    async fn answer(&self, request: Request<Incoming>) -> Response<Told> {
        let (parts, body) = Upload::new(request, self.client_timeout, BODY_WITHIN).into_parts();
        let path = parts.uri.path();
        let whole = |answer: Answer| answer.map(Told::new);
        if is_from_a_page(&parts.headers) {
            return whole(answers::from_a_page());
        }
        let below = path.strip_prefix("/leases/");
        match (&parts.method, below) {
            (&Method::POST, Some(name)) => match self.acquire(name, &parts.headers, body).await {
                Ok(lease) => lease,
                Err(answer) => whole(answer),
            },
            (&Method::GET, Some(id)) => whole(self.show(id).await),
            (&Method::PUT, Some(id)) => whole(self.renew(id).await),
            (&Method::DELETE, Some(id)) => whole(self.release(id).await),
            (_, Some(_)) => whole(answers::wrong_method("POST, GET, PUT, DELETE")),
            (&Method::GET, None) if path == "/health" => whole(self.health().await),
            (&Method::GET, None) if path == "/openapi.yaml" => {
                whole(answer(StatusCode::OK, "application/yaml", OPENAPI))
            }
            (_, None) if matches!(path, "/health" | "/openapi.yaml") => {
                whole(answers::wrong_method("GET"))
            }
            _ => whole(answers::not_found()),
        }
    }

    async fn acquire(
        &self,
        name: &str,
        headers: &HeaderMap,
        body: Upload,
    ) -> Result<Response<Told>, Answer> {
        let resource = resource(name).map_err(|why| answers::malformed(&why))?;
        // Before the body: a slow one takes a connection as a waiter does.
        let Ok(_waiting) = self.waiters.try_acquire() else {
            return Err(answers::crowded("too many requests wait for locks; nothing was asked"));
        };
        let wish = wish(headers, body).await?;
        let ttl = wish.ttl_ms.map_or(self.ttl, Duration::from_millis);
        let wait = Duration::from_millis(wish.wait_ms);
        for (field, value, most) in
            [("ttl_ms", ttl, self.longest_ttl), ("wait_ms", wait, self.longest_wait)]
        {
            if value > most {
                let most = most.as_millis();
                return Err(answers::malformed(&format!("{field} is at most {most}")));
            }
        }
        let wrong = |error: BuildError| answers::malformed(&error.to_string());
        let lock = self.lock.with_ttl(ttl).and_then(|lock| lock.with_wait(wait)).map_err(wrong)?;
        let Some(place) = self.table.place() else {
            return Err(answers::unavailable("too many leases are out; nothing was asked"));
        };
        let mut stopping = self.stopping.clone();
        // If the client goes away, this is dropped, which releases.
        let acquired = async {
            match wait.is_zero() {
                true => lock.try_acquire(&resource).await,
                false => lock.acquire(&resource).await,
            }
        };
        let lease = tokio::select! {
            lease = acquired => lease.map_err(|error| answers::not_acquired(&error))?,
            _ = stopping.wait_for(|stop| *stop) => {
                return Err(answers::unavailable("the service stops; nothing was acquired"));
            }
        };
        let kept = self.table.keep(lease, ttl, place);
        let shown = kept.map_err(|error| answers::unavailable(&error.to_string()))?;
        let unread = Unread { table: Arc::clone(&self.table), id: shown.id.clone() };
        let told = answers::lease(StatusCode::CREATED, &shown, self.keys.as_deref());
        Ok(told.map(|text| Told::of_a_lease(text, unread)))
    }

    async fn show(&self, id: &str) -> Answer {
        match self.table.show(id).await {
            Some(lease) => answers::lease(StatusCode::OK, &lease, self.keys.as_deref()),
            None => answers::no_lease(),
        }
    }

    async fn renew(&self, id: &str) -> Answer {
        match self.table.renew(id).await {
            Ok(lease) => answers::lease(StatusCode::OK, &lease, self.keys.as_deref()),
            Err(NotRenewed::Over(None)) => answers::no_lease(),
            Err(NotRenewed::Over(Some(loss))) => answers::lost(loss),
            Err(NotRenewed::Failed(left)) => answers::unavailable(&format!(
                "not renewed: too few servers answered; the lease lasts for another {}",
                about(left)
            )),
        }
    }

    async fn release(&self, id: &str) -> Answer {
        match self.table.release(id).await {
            Some(Ok(Released::Released)) => {
                let mut empty = answer(StatusCode::NO_CONTENT, JSON, "");
                empty.headers_mut().remove(CONTENT_TYPE);
                empty
            }
            Some(Ok(Released::Lapsed)) | None => answers::no_lease(),
            Some(Err(error)) => {
                tracing::warn!(%error, "release in doubt");
                answers::release_in_doubt()
            }
        }
    }

    async fn health(&self) -> Answer {
        let health = self.lock.health().await;
        let ready = health.has_quorum();
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let (granting, needed) = (health.granting, health.needed);
        let text = json!({ "ready": ready, "granting": granting, "needed": needed });
        answer(status, JSON, text.to_string())
    }
}

impl Handler for Serve {
    type Body = Told;

    async fn handle(
        &self,
        request: Request<Incoming>,
        _: SocketAddr,
    ) -> Result<Response<Told>, Infallible> {
        let kind = match (request.method(), request.uri().path().starts_with("/leases/")) {
            (&Method::POST, true) => "acquire",
            (&Method::GET, true) => "show",
            (&Method::PUT, true) => "renew",
            (&Method::DELETE, true) => "release",
            _ => "other",
        };
        let answer = self.answer(request).await;
        let labels =
            [("request", kind.to_owned()), ("status", answer.status().as_str().to_owned())];
        metrics::counter!("fencing_serve_requests_total", &labels).increment(1);
        Ok(answer)
    }
}

/// Reads the name behind `/leases/`. It is as strict as the fence: one resource has one name.
fn resource(name: &str) -> Result<Resource, String> {
    let decoded = percent_decode_str(name).decode_utf8();
    let decoded = decoded.map_err(|_| "the name is not UTF-8".to_owned())?;
    segments(decoded.split('/')).map_err(|error| error.to_string())
}

/// Whether a browser sends this for a web page. This service has no pages, so each is foreign: one that is open in a
/// browser on the same machine reaches a loopback address, and its requests with simple bodies need no consent.
fn is_from_a_page(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").is_some_and(|site| site != "none");
    site || headers.contains_key(ORIGIN)
}

/// Reads what a client asks for.
async fn wish(headers: &HeaderMap, body: Upload) -> Result<Wish, Answer> {
    let bytes = match Limited::new(body, BODY).collect().await {
        Ok(bytes) => bytes.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Err(answers::too_long(&format!("the body has more than {BODY} bytes")));
        }
        Err(error) => return Err(answers::malformed(&error.to_string())),
    };
    if bytes.is_empty() {
        return Ok(Wish::default());
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case(JSON) {
        return Err(answers::not_json());
    }
    serde_json::from_slice(&bytes).map_err(|error| answers::malformed(&error.to_string()))
}
