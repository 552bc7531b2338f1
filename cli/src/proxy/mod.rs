//! `fencing proxy`: the fence before any service. A request whose answer the proxy does not wait for
//! goes on in a task of its own, and stays in flight: see `relay.rs` and `flight.rs`.

mod connector;
mod counted;
mod flight;
mod headers;
mod marks;
mod name_error;
mod names;
mod patterns;
mod relay;
mod signed;
mod upstream;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::body::Body;
use fencing::http::{FenceLayer, FenceService, Problem, Require};
use fencing::{Fence, Resource};
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use self::counted::{Counted, refused};
use self::marks::ClosedMarks;
use self::name_error::UnnamedPath;
use self::names::{Named, Names};
pub(crate) use self::patterns::Pattern;
use self::upstream::{Exchange, Upstream};
use crate::args::ProxyArgs;
use crate::duration::show;
use crate::exit::Failure;
use crate::listen::{Handler, HttpAnswer, Listener, Upload, problem, record_metrics, status};
use crate::say;
use crate::signing::SigningKeys;

/// The routes of this process, and what it answers.
const OPENAPI: &str = include_str!("../../openapi/proxy.yaml");

type Fencing = FenceService<Upstream, fn(&Parts) -> Result<Vec<Resource>, UnnamedPath>>;

/// What the requests share.
#[derive(Clone)]
struct FencingProxy {
    fencing: Fencing,
    names: Arc<Names>,
    /// A place for each request under way.
    places: Arc<Semaphore>,
    client_timeout: Duration,
    longest: Duration,
    keys: Option<Arc<SigningKeys>>,
}

/// Runs the proxy until a signal ends it, and returns the exit status.
pub(crate) async fn main(args: ProxyArgs) -> Result<u8, Failure> {
    let recorder = record_metrics()?;
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
    let wait = if args.clean_start { Duration::ZERO } else { args.quarantine_at_start() };
    let opens = Instant::now() + wait;
    let fence = Fence::new(ClosedMarks::new(marks, opens)).limit(args.limit);
    let fence = match args.ceiling {
        Some(ceiling) => fence.ceiling(ceiling),
        None => fence,
    };
    let listener = Listener::bind(&args.listen).await?;
    let proxy = FencingProxy::new(&args, fence.clone(), names, keys);
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
    let metrics = move || std::future::ready(recorder.render());
    let status = status(ready, metrics, Some(OPENAPI), listener.stop.clone());
    let (places, all) = (Arc::clone(&proxy.places), args.requests);
    let settled = async move {
        let _all = places.acquire_many(u32::try_from(all).unwrap_or(u32::MAX)).await;
    };
    listener.run(proxy, status, settled).await
}

impl FencingProxy {
    fn new(
        args: &ProxyArgs,
        fence: Fence,
        names: Names,
        keys: Option<Arc<SigningKeys>>,
    ) -> FencingProxy {
        let named: fn(&Parts) -> Result<Vec<Resource>, UnnamedPath> = names::named;
        let upstream = Upstream::new(args, fence.clone());
        let layer = FenceLayer::new(fence, named);
        let layer = if args.require_always { layer.require(Require::Always) } else { layer };
        let layer = if args.ignore_reads { layer.ignore_reads() } else { layer };
        let layer = if args.shadow { layer.shadow() } else { layer };
        let layer = if args.hide_highest { layer.hide_highest() } else { layer };
        FencingProxy {
            fencing: layer.layer(upstream),
            names: Arc::new(names),
            places: Arc::new(Semaphore::new(args.requests)),
            client_timeout: args.listen.client_timeout,
            longest: args.longest,
            keys,
        }
    }

    /// Refuses requests that no fence can check, with the label that counts them.
    fn refused(&self, parts: &Parts) -> Option<(&'static str, HttpAnswer)> {
        let malformed = (Problem::MALFORMED, "Malformed request");
        if matches!(parts.method, Method::CONNECT | Method::TRACE) {
            let why = format!("{} is not passed on", parts.method);
            let answer = problem(StatusCode::METHOD_NOT_ALLOWED, malformed, &why, None);
            return Some(("method", answer));
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
        Some(("malformed", problem(StatusCode::BAD_REQUEST, malformed, why, None)))
    }
}

impl Handler for FencingProxy {
    async fn handle(&self, request: Request<Incoming>, from: SocketAddr) -> Response<Body> {
        let unavailable = (Problem::UNAVAILABLE, "Proxy unavailable");
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            refused("full");
            let why = "too many requests are under way; nothing was sent";
            return problem(StatusCode::SERVICE_UNAVAILABLE, unavailable, why, Some(1));
        };
        let request = Upload::new(request, self.client_timeout, self.longest);
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
        let sent = Arc::new(AtomicBool::new(false));
        let (bodies, body) = mpsc::channel(1);
        parts.extensions.insert(Named(named));
        parts.extensions.insert(Exchange { sent: Arc::clone(&sent), from, bodies });
        let answering = self.fencing.clone().call(Request::from_parts(parts, upload));
        let (client, answered) = oneshot::channel();
        // A client that hangs up drops this future, and not the request.
        tokio::spawn(async move {
            let _place = Counted::new("fencing_proxy_requests", place);
            relay::carry(answering, sent, body, client).await;
        });
        answered.await.unwrap_or_else(|_| {
            let why = "the proxy failed; the request may or may not have been carried out";
            problem(StatusCode::INTERNAL_SERVER_ERROR, unavailable, why, None)
        })
    }
}
