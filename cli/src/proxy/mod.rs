//! `fencing proxy`: the fence before any service. A request whose answer the proxy does not wait for
//! goes on in a task of its own, and stays in flight: see `relay.rs` and `flight.rs`.

mod args;
mod behind_fence;
mod connector;
mod counted;
mod flight;
mod headers;
mod marks;
mod names;
mod patterns;
mod relay;
mod signed;
mod upstream;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use fencing::http::{FenceLayer, FenceService, Policy, Problem};
use fencing::{Fence, Resource};
use futures_util::FutureExt;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Method, Request, StatusCode};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use tower::{Layer, Service, service_fn};

pub(crate) use self::args::ProxyArgs;
use self::behind_fence::{BehindFence, Waiting, let_through};
use self::counted::{Counted, refused};
use self::marks::ClosedMarks;
use self::names::Names;
use self::upstream::Upstream;
use crate::duration::show;
use crate::exit::Failure;
use crate::listen::{
    Answers, HttpAnswer, Listener, MALFORMED, ProblemKind, Upload, record_metrics, status,
};
use crate::say;
use crate::signing::SigningKeys;

/// The routes of this process, and what it answers.
const OPENAPI: &str = include_str!("../../openapi/proxy.yaml");

const NOT_PASSED_ON: ProblemKind =
    ProblemKind::new(StatusCode::METHOD_NOT_ALLOWED, Problem::MALFORMED, "Malformed request");
const FULL: ProblemKind =
    ProblemKind::new(StatusCode::SERVICE_UNAVAILABLE, Problem::UNAVAILABLE, "Proxy unavailable")
        .retry_after(1);
const FAILED: ProblemKind =
    ProblemKind::new(StatusCode::INTERNAL_SERVER_ERROR, Problem::UNAVAILABLE, "Proxy unavailable");

type Extractor = fn(&Parts) -> Result<Vec<Resource>, String>;

/// What the requests share.
#[derive(Clone)]
struct FencingProxy {
    fencing: FenceService<BehindFence, Extractor>,
    upstream: Upstream,
    names: Arc<Names>,
    /// A permit for each request under way.
    permits: Arc<Semaphore>,
    args: Arc<ProxyArgs>,
    keys: Option<Arc<SigningKeys>>,
}

/// Runs the proxy until a signal ends it, and returns the exit status.
pub(crate) async fn main(args: ProxyArgs) -> Result<u8, Failure> {
    let (args, recorder) = (Arc::new(args), record_metrics()?);
    let keys = args.signing_keys.as_deref().map(SigningKeys::open).transpose()?.map(Arc::new);
    let names =
        Names::new(&args).map_err(|why| Failure::usage(format_args!("--resource-from {why}")))?;
    if args.quarantine() < args.upstream_timeout {
        say::error(format_args!(
            "warning: --quarantine {} is shorter than --upstream-timeout {}: the service may still be at \
             work on a request when its resource is open to newer tokens",
            show(args.quarantine()),
            show(args.upstream_timeout),
        ));
    }
    // Any name does: the mark is only read.
    let probe = Resource::new("readyz").map_err(Failure::failed)?;
    let marks = marks::open(&args, &probe).await?;
    // An earlier proxy that is told to stop frees its port at once, and sends for up to --stop-within.
    let earlier = args.quarantine() + args.listen.stop_within;
    let opens = Instant::now() + if args.clean_start { Duration::ZERO } else { earlier };
    let fence = Fence::new(ClosedMarks { marks, until: opens }).limit(args.limit);
    let fence = match args.ceiling {
        Some(ceiling) => fence.ceiling(ceiling),
        None => fence,
    };
    let listener = Listener::bind(&args.listen).await?;
    let permits = Arc::new(Semaphore::new(args.requests));
    let proxy = FencingProxy {
        fencing: layer(&args, fence.clone()).layer(service_fn(let_through as _)),
        upstream: Upstream::new(Arc::clone(&args), fence.clone()),
        names: Arc::new(names),
        permits: Arc::clone(&permits),
        args: Arc::clone(&args),
        keys,
    };
    let ready = move || {
        let (fence, probe) = (fence.clone(), probe.clone());
        async move {
            let left = opens.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return Err(format!("in quarantine for another {} s", left.as_secs() + 1));
            }
            fence.highest(&probe).await.map(drop).map_err(|error| error.to_string())
        }
    };
    let status = status(recorder, ready, false, Some(OPENAPI), listener.stop.clone());
    let all = u32::try_from(args.requests).unwrap_or(u32::MAX);
    let settled = async move {
        let _all = permits.acquire_many(all).await;
    };
    let answers = service_fn(move |request| proxy.clone().answer(request).map(Ok));
    listener.run(Answers::new(answers), status, settled).await
}

fn layer(args: &ProxyArgs, fence: Fence) -> FenceLayer<Extractor> {
    let layer = FenceLayer::new(fence, Waiting::named as Extractor);
    let layer = if args.require_always { layer.policy(|_| Policy::Required) } else { layer };
    let layer = if args.ignore_reads { layer.policy(Policy::ignoring_reads) } else { layer };
    let layer = if args.shadow { layer.shadow() } else { layer };
    if args.hide_highest { layer.hide_highest() } else { layer }
}

impl FencingProxy {
    /// Refuses requests that no fence can check, with the label that counts them.
    fn refused(&self, parts: &Parts) -> Option<(&'static str, HttpAnswer)> {
        if matches!(parts.method, Method::CONNECT | Method::TRACE) {
            let why = format!("{} is not passed on", parts.method);
            return Some(("method", NOT_PASSED_ON.answer(why)));
        }
        // Those are writes already. The body of a form may say the same, but only a POST has one.
        let writes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        let why = if !writes.contains(&parts.method) && headers::overrides_method(&parts.uri) {
            "a request must not ask for another method"
        } else if parts.headers.get_all(CONTENT_LENGTH).iter().count() > 1 {
            "the request has more than one Content-Length"
        } else if parts.uri.path() == "*" && parts.method != Method::OPTIONS {
            "only OPTIONS is about the whole service"
        } else if !self.names.by_gateway() && parts.headers.contains_key(headers::DESTINATION) {
            "the header Destination names a second resource, which the fence does not check"
        } else {
            return None;
        };
        Some(("malformed", MALFORMED.answer(why)))
    }

    async fn answer(self, request: Request<Body>) -> HttpAnswer {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            refused("full");
            return FULL.answer("too many requests are under way; nothing was sent");
        };
        let permit = Counted::new("fencing_proxy_requests", permit);
        let request = Upload::new(request, self.args.listen.client_timeout, self.args.longest);
        let (mut parts, upload) = request.into_parts();
        let upload = upload.cleaned(headers::trailers);
        if let Some((cause, answer)) = self.refused(&parts) {
            refused(cause);
            return answer;
        }
        headers::clean(&mut parts.headers);
        let named = self.names.of(&parts);
        // Without a name the layer refuses every token.
        if let (Some(keys), Ok(resources)) = (&self.keys, &named)
            && let Some(answer) = signed::refused(&parts.headers, resources, keys)
        {
            return answer;
        }
        let (passed, mut behind) = mpsc::channel(1);
        parts.extensions.insert(Waiting { named, passed });
        // A client that hangs up drops this future, and not a request that was let through.
        let Ok(response) = self.fencing.clone().call(Request::from_parts(parts, upload)).await;
        let Ok(request) = behind.try_recv() else { return response.map(Body::new) };
        let (head, admission) = response.into_parts();
        let (client, answered) = oneshot::channel();
        let upstream = self.upstream;
        tokio::spawn(async move {
            let _permit = permit;
            let (answer, at_work) = upstream.exchange(request, admission).await;
            let _ = client.send(answer);
            if let Some(at_work) = at_work {
                at_work.await;
            }
        });
        let Ok(mut answer) = answered.await else {
            let why = "the proxy failed; the request may or may not have been carried out";
            return FAILED.answer(why);
        };
        // What the fence says in shadow mode.
        answer.headers_mut().extend(head.headers);
        answer
    }
}
