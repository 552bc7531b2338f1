//! `fencing proxy`: the fence before any service. A request whose answer the proxy does not wait for
//! goes on in a task of its own, and stays in flight: see `relay.rs` and `held.rs`.

mod connector;
mod counted;
mod headers;
mod held;
mod marks;
mod names;
mod patterns;
mod relay;
mod signed;
mod upstream;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fencing::http::{FenceLayer, FenceService, Problem, Require};
use fencing::{Fence, Resource};
use futures_util::FutureExt;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{HeaderName, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use self::counted::{Counted, refused};
use self::marks::ClosedMarks;
use self::names::{NameError, Named};
pub(crate) use self::patterns::Pattern;
use self::patterns::{by_patterns, hidden};
use self::relay::{ClientBody, Patience};
use self::upstream::{Sent, Upstream};
use crate::duration::show;
use crate::listen::{Answer, Handler, Listener, Ready, Status, Upload, problem, record_metrics};
use crate::pool::{Failure, usage};
use crate::signing::Keys;
use crate::{args, exit, say};

/// The routes of this process, and what it answers.
const OPENAPI: &str = include_str!("../../openapi/proxy.yaml");

type Fencing = FenceService<Upstream, fn(&Parts) -> Result<Vec<Resource>, NameError>>;

/// What the requests share.
#[derive(Clone)]
struct Proxy {
    fencing: Fencing,
    resource_header: Option<HeaderName>,
    /// Which resources a path names. Without any, the path is the name.
    patterns: Arc<[Pattern]>,
    /// A place for each request under way.
    places: Arc<Semaphore>,
    client_timeout: Duration,
    longest: Duration,
    keys: Option<Arc<Keys>>,
}

/// Runs the proxy until a signal ends it, and returns the exit status.
pub(crate) async fn main(args: args::Proxy) -> u8 {
    match run(&args).await {
        Ok(status) => status,
        Err(Failure(status, text)) => {
            say::error(say::without_passwords(&text));
            status
        }
    }
}

async fn run(args: &args::Proxy) -> Result<u8, Failure> {
    let failed = |text: String| Failure(exit::FAILED, text);
    let recorder = record_metrics().map_err(|error| failed(error.to_string()))?;
    let keys = args.signing_keys.as_deref().map(Keys::open).transpose();
    let keys = keys.map_err(|text| Failure(exit::USAGE, text))?.map(Arc::new);
    if let Some((earlier, later)) = hidden(&args.resource_from) {
        return Err(usage(format_args!(
            "--resource-from {later} comes after {earlier}, which matches all of its paths: put it first"
        )));
    }
    if args.quarantine() < args.upstream_timeout {
        say::error(format_args!(
            "warning: --quarantine {} is shorter than --upstream-timeout {}: the service may still be at \
             work on a request when its resource is open to newer tokens",
            show(args.quarantine()),
            show(args.upstream_timeout),
        ));
    }
    // Any name does: the mark is only read.
    let probe = Resource::new("readyz").map_err(|error| failed(error.to_string()))?;
    let marks = marks::open(args, &probe).await?;
    let wait = if args.clean_start { Duration::ZERO } else { args.quarantine_at_start() };
    let opens = Instant::now() + wait;
    let fence = Fence::new(ClosedMarks::new(marks, opens)).limit(args.limit);
    let fence = match args.ceiling {
        Some(ceiling) => fence.ceiling(ceiling),
        None => fence,
    };
    let listener = Listener::bind(&args.listen).await.map_err(failed)?;
    let proxy = Proxy::new(args, fence.clone(), keys);
    let ready: Ready = Arc::new(move || {
        let (fence, probe) = (fence.clone(), probe.clone());
        async move {
            let left = opens.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return Err(format!("in quarantine for another {} s", left.as_secs() + 1));
            }
            fence.highest(&probe).await.map(drop).map_err(|error| error.to_string())
        }
        .boxed()
    });
    let status = Status { ready, recorder, openapi: Some(OPENAPI), stopping: listener.stopping() };
    let (places, all) = (Arc::clone(&proxy.places), args.requests);
    let settled = async move {
        let _all = places.acquire_many(u32::try_from(all).unwrap_or(u32::MAX)).await;
    };
    Ok(listener.run(proxy, status, settled).await)
}

impl Proxy {
    fn new(args: &args::Proxy, fence: Fence, keys: Option<Arc<Keys>>) -> Proxy {
        let named: fn(&Parts) -> Result<Vec<Resource>, NameError> = names::named;
        let upstream = Upstream::new(args, fence.clone());
        let layer = FenceLayer::new(fence, named);
        let layer = if args.require_always { layer.require(Require::Always) } else { layer };
        let layer = if args.ignore_reads { layer.ignore_reads() } else { layer };
        let layer = if args.shadow { layer.shadow() } else { layer };
        let layer = if args.hide_highest { layer.hide_highest() } else { layer };
        Proxy {
            fencing: layer.layer(upstream),
            resource_header: args.resource_header.clone(),
            patterns: args.resource_from.clone().into(),
            places: Arc::new(Semaphore::new(args.requests)),
            client_timeout: args.listen.client_timeout,
            longest: args.longest,
            keys,
        }
    }

    /// Refuses what no fence could stand before.
    fn refused(&self, parts: &Parts) -> Option<Answer> {
        let malformed = (Problem::MALFORMED, "Malformed request");
        if matches!(parts.method, Method::CONNECT | Method::TRACE) {
            let why = format!("{} is not passed on", parts.method);
            return Some(problem(StatusCode::METHOD_NOT_ALLOWED, malformed, &why, None));
        }
        // Those are writes already. The body of a form may say the same, but only a POST has one.
        let writes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        if !writes.contains(&parts.method) && headers::overrides_method(&parts.uri) {
            let why = "a request must not ask for another method";
            return Some(problem(StatusCode::BAD_REQUEST, malformed, why, None));
        }
        // HTTP/1 has the same rules before hyper reads it.
        if parts.headers.get_all(CONTENT_LENGTH).iter().count() > 1 {
            let why = "the request has more than one Content-Length";
            return Some(problem(StatusCode::BAD_REQUEST, malformed, why, None));
        }
        if parts.uri.path() == "*" && parts.method != Method::OPTIONS {
            let why = "only OPTIONS is about the whole service";
            return Some(problem(StatusCode::BAD_REQUEST, malformed, why, None));
        }
        // A gateway that names the resource has seen it.
        if self.resource_header.is_none() && parts.headers.contains_key(headers::DESTINATION) {
            let why =
                "the header Destination names a second resource, before which no fence stands";
            return Some(problem(StatusCode::BAD_REQUEST, malformed, why, None));
        }
        None
    }
}

impl Handler for Proxy {
    type Body = ClientBody;

    async fn handle(
        &self,
        request: Request<Incoming>,
        from: SocketAddr,
    ) -> Result<Response<ClientBody>, Infallible> {
        let unavailable = (Problem::UNAVAILABLE, "Proxy unavailable");
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            refused("full");
            let why = "too many requests are under way; nothing was sent";
            let answer = problem(StatusCode::SERVICE_UNAVAILABLE, unavailable, why, Some(1));
            return Ok(ClientBody::whole(answer));
        };
        let request = Upload::new(request, self.client_timeout, self.longest);
        let (mut parts, upload) = request.into_parts();
        let until = upload.progress().until();
        let upload = upload.cleaned(headers::trailers);
        if let Some(answer) = self.refused(&parts) {
            refused(if answer.status() == StatusCode::METHOD_NOT_ALLOWED {
                "method"
            } else {
                "malformed"
            });
            return Ok(ClientBody::whole(answer));
        }
        headers::clean(&mut parts.headers);
        let named = match &self.resource_header {
            Some(header) => names::by_header(&parts, header).map(|name| vec![name]),
            None => names::by_path(&parts).and_then(|path| match self.patterns.is_empty() {
                true => Ok(vec![path]),
                false => by_patterns(&self.patterns, path.as_str()),
            }),
        };
        // Without a name the layer refuses every token.
        if let (Some(keys), Ok(resources)) = (&self.keys, &named)
            && let Some(answer) = signed::refused(&parts.headers, resources, keys)
        {
            return Ok(ClientBody::whole(answer));
        }
        let at_all = Arc::new(AtomicBool::new(false));
        parts.extensions.insert(Named(named));
        parts.extensions.insert(Sent { at_all: Arc::clone(&at_all), from });
        let answering = self.fencing.clone().call(Request::from_parts(parts, upload));
        let patience = Patience { client: self.client_timeout, until };
        let (client, answered) = oneshot::channel();
        // A client that hangs up drops this future, and not the request.
        tokio::spawn(async move {
            let _place = Counted::new("fencing_proxy_requests", place);
            relay::carry(answering, at_all, client, patience).await;
        });
        Ok(answered.await.unwrap_or_else(|_| {
            let why = "the proxy failed; the request may or may not have been carried out";
            ClientBody::whole(problem(StatusCode::INTERNAL_SERVER_ERROR, unavailable, why, None))
        }))
    }
}
