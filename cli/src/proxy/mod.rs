mod args;
mod flight;
mod headers;
mod names;
mod upstream;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use fencing::fence::{Marks, MemoryMarks};
use fencing::http::{FenceLayer, Fenced, Policy, Problem, SHADOW, is_grpc};
use fencing::sql::{self, SqlMarks};
use fencing::{Fence, Resource, Sequencer};
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};
use tower::service_fn;

use self::args::FenceArgs;
pub(crate) use self::args::ProxyArgs;
use self::flight::Flight;
use self::upstream::Upstream;
use crate::duration::show;
use crate::exit::{Failure, Status};
use crate::listen::{
    Answers, HttpAnswer, Listener, MALFORMED, ProblemKind, Refused, bounded, gauged, in_grpc, record_metrics,
};
use crate::lock_service::NAMESPACE;
use crate::marks::MarksStore;
use crate::pool::{connect, on, with_timeout};
use crate::say;
use crate::signing::SigningKeys;

const OPENAPI: &str = include_str!("../../openapi/proxy.yaml");

const MAX_CONNECTIONS: u32 = 8;
const NOT_OPEN: &str = "the marks in this Redis are not open: the server may have forgotten some; \
                        see `fencing db marks open --help`";

const NOT_PASSED_ON: ProblemKind = ProblemKind::new(StatusCode::METHOD_NOT_ALLOWED, Problem::MALFORMED);
const FULL: ProblemKind = ProblemKind::new(StatusCode::SERVICE_UNAVAILABLE, Problem::UNAVAILABLE).retry_after(1);
const NOT_SENT: ProblemKind = ProblemKind::new(StatusCode::BAD_GATEWAY, Problem::UNAVAILABLE).retry_after(1);
const FAILED: ProblemKind = ProblemKind::new(StatusCode::INTERNAL_SERVER_ERROR, Problem::UNAVAILABLE);

/// When the quarantines end. In each, one request keeps its resources closed, for all that broke with its tokens.
type Quarantines = Mutex<HashMap<Vec<Sequencer>, Instant>>;

/// The shared state of the requests. `X` names the resources of a request.
struct FencingProxy<X> {
    fence: FenceLayer<X>,
    upstream: Upstream,
    permits: Arc<Semaphore>,
    quarantines: Arc<Quarantines>,
    args: Arc<ProxyArgs>,
    keys: Option<SigningKeys>,
}

pub(crate) async fn main(args: ProxyArgs) -> Result<Status, Failure> {
    let (args, recorder) = (Arc::new(args), record_metrics()?);
    let keys = args.fence.signing_keys.as_deref().map(SigningKeys::open).transpose()?;
    let names = names::extractor(args.fence.resource_header.clone(), &args.fence.resource_from)?;
    let (quarantine, timeout) = (args.service.quarantine(), args.service.upstream_timeout);
    if quarantine < timeout {
        let why = "the service may still work on a request when newer tokens are admitted";
        let (quarantine, timeout) = (show(quarantine), show(timeout));
        say::error(format!("warning: --quarantine {quarantine} is shorter than --upstream-timeout {timeout}: {why}"));
    }
    // Any name does: the mark is only read.
    let probe = Resource::new("readyz").map_err(Failure::failed)?;
    let marks = open_marks(&args.fence).await?;
    // An earlier proxy frees its port at once when it is stopped, and sends for up to --stop-within.
    let earlier = quarantine + args.listen.bounds.stop_within;
    let opens = Instant::now() + if args.service.clean_start { Duration::ZERO } else { earlier };
    let fence = Fence::new(marks).closed_until(opens).limit(args.fence.limit).ceiling(args.fence.ceiling);
    let listener = Listener::bind(&args.listen, recorder).await?;
    let permits = Arc::new(Semaphore::new(args.service.requests));
    let (options, layer) = (&args.fence, FenceLayer::new(fence.clone(), names));
    let layer = if options.require_always { layer.policy(|_| Policy::Required) } else { layer };
    let layer = if options.ignore_reads { layer.policy(Policy::ignoring_reads) } else { layer };
    let layer = if options.shadow { layer.shadow() } else { layer };
    let proxy = Arc::new(FencingProxy {
        fence: if options.hide_highest { layer.hide_highest() } else { layer },
        upstream: Upstream::new(args.service.upstream_http2),
        permits: Arc::clone(&permits),
        quarantines: Arc::default(),
        args: Arc::clone(&args),
        keys,
    });
    let ready = async move || {
        let left = opens.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Err(format!("in quarantine for another {} s", left.as_secs() + 1));
        }
        fence.marks().highest(&probe).await.map(drop).map_err(|error| error.to_string())
    };
    let all = u32::try_from(args.service.requests).unwrap_or(u32::MAX);
    let settled = async move {
        let _all = permits.acquire_many(all).await;
    };
    let answers = service_fn(move |request: Request<Body>| {
        let proxy = Arc::clone(&proxy);
        async move {
            let reads_grpc = is_grpc(request.method(), request.headers());
            let answer = proxy.answer(request).await.into_response();
            Ok(if reads_grpc { in_grpc(answer) } else { answer })
        }
    });
    listener.run(Answers::new(answers), OPENAPI, ready, settled).await
}

async fn open_marks(args: &FenceArgs) -> Result<Arc<dyn Marks>, Failure> {
    let Some(url) = &args.marks else { return Ok(Arc::new(MemoryMarks::default())) };
    let url = match MarksStore::new(url, args.namespace.as_deref().unwrap_or(NAMESPACE))? {
        MarksStore::Redis(marks) if marks.look().await?.is_open() => return Ok(Arc::new(*marks)),
        MarksStore::Redis(_) => return Err(Failure::refused(NOT_OPEN)),
        MarksStore::Database(_) if args.namespace.is_some() => {
            return Err(Failure::usage("--namespace is for --marks in a Redis"));
        }
        MarksStore::Database(url) => url,
    };
    let pool = connect("--marks", &url, true, MAX_CONNECTIONS).await?;
    // At each start: a table may have lost its log since, or the cluster its only writer.
    on!(&pool, pool => with_timeout(sql::migrate(pool)).await)?;
    Ok(on!(pool, pool => Arc::new(SqlMarks::new(pool)) as Arc<dyn Marks>))
}

/// Counts a request that did not reach the fence, or the service behind it.
fn refused(cause: &'static str) {
    metrics::counter!("fencing_proxy_refused_total", "cause" => cause).increment(1);
}

/// Waits until the quarantine is over. If another request waits with the same tokens, it does so for this one too.
async fn keep_closed(quarantines: &Quarantines, sequencers: Vec<Sequencer>, time: Duration) {
    // The clock is read under the lock, so that no other request replaces this end with an earlier one.
    if quarantines.lock().insert(sequencers.clone(), Instant::now() + time).is_some() {
        return;
    }
    loop {
        let Some(end) = quarantines.lock().get(&sequencers).copied() else { return };
        sleep_until(end).await;
        quarantines.lock().retain(|_, end| *end > Instant::now());
    }
}

impl<X: Fn(&Parts) -> Result<Vec<Resource>, String>> FencingProxy<X> {
    /// Refuses requests that no fence can check.
    fn check(&self, parts: &Parts) -> Result<(), Refused> {
        if matches!(parts.method, Method::CONNECT | Method::TRACE) {
            refused("method");
            return Err(NOT_PASSED_ON.because(format_args!("{} is not passed on", parts.method)));
        }
        // Those are writes already. The body of a form may say the same, but only a POST has one.
        let writes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        let why = if !writes.contains(&parts.method) && headers::overrides_method(&parts.uri) {
            "a request must not override its method"
        } else if parts.headers.get_all(CONTENT_LENGTH).iter().count() > 1 {
            "the request has more than one Content-Length"
        } else if parts.uri.path() == "*" && parts.method != Method::OPTIONS {
            "only OPTIONS may address the whole service (*)"
        } else if self.args.fence.resource_header.is_none() && parts.headers.contains_key(headers::DESTINATION) {
            "the header Destination names a second resource, which the fence does not check"
        } else {
            return Ok(());
        };
        refused("malformed");
        Err(MALFORMED.because(why))
    }

    async fn answer(&self, request: Request<Body>) -> axum::response::Result<HttpAnswer> {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            refused("full");
            return Err(FULL.because("too many requests are in progress; nothing was sent").into());
        };
        let permit = gauged("fencing_proxy_requests", permit);
        let args = &self.args;
        let (request, upload) = bounded(request, args.listen.bounds.client_timeout, args.service.longest);
        let (mut parts, body) = request.into_parts();
        self.check(&parts)?;
        headers::clean(&mut parts.headers);
        let admitted = self.fence.admit(&mut parts);
        if let (Some(keys), Some(fenced)) = (&self.keys, parts.extensions.get()) {
            keys.check(&parts.headers, fenced)?;
        }
        // A client that hangs up drops this future, and not a request that was let through.
        let passage = admitted.await?;
        let (is_fenced, shadow) = (passage.is_fenced(), passage.shadow());
        let sequencers = parts.extensions.get().map(Fenced::sequencers).unwrap_or_default();
        let request = headers::forwarded(parts, body, &args.service.upstream, args.service.upstream_http2);
        let request = request.map_err(|error| NOT_SENT.because(format_args!("{error}; nothing was sent")))?;
        let (flight, answered) = Flight::new(Arc::clone(args), upload, passage);
        let answer = self.upstream.send(request, is_fenced);
        let (quarantines, time) = (Arc::clone(&self.quarantines), args.service.quarantine());
        tokio::spawn(async move {
            let _permit = permit;
            if let Some(_in_doubt) = flight.run(answer).await {
                keep_closed(&quarantines, sequencers, time).await;
            }
        });
        let why = "the proxy failed; the request may or may not have been carried out";
        let mut answer = answered.await.unwrap_or_else(|_| FAILED.because(why).into_response());
        if let Some(status) = shadow {
            answer.headers_mut().insert(SHADOW, HeaderValue::from(status.as_u16()));
        }
        Ok(answer)
    }
}
