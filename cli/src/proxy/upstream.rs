use std::convert::Infallible;
use std::error::Error as _;
use std::future::ready;
use std::iter::successors;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use fencing::http::{Fenced, Problem};
use fencing::{Fence, Sequencer};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode, Uri};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tower_service::Service;

use super::connector::Connector;
use super::counted::refused;
use super::flight::{AtWork, Flight, Leftover, no_progress};
use super::headers;
use super::relay::{self, Patience};
use crate::args::ProxyArgs;
use crate::listen::{Upload, UploadError, UploadState, problem};
use crate::say;

/// How long a connection to the service may take. A request that has none was not sent.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an unused connection to the service is kept, for requests that the fence has not admitted.
const UNUSED_TIMEOUT: Duration = Duration::from_secs(15);
/// How often a long upload looks whether a newer token has come.
const NEWER_INTERVAL: Duration = Duration::from_secs(1);

/// The service behind the proxy.
#[derive(Clone)]
pub(super) struct Upstream {
    client: Client<Connector, Upload>,
    /// For requests that the fence has admitted: it uses no connection twice. Where the service closes
    /// an unused connection just now, a request on it would be in doubt, and keep its resource closed.
    fresh: Client<Connector, Upload>,
    uri: Uri,
    http2: bool,
    patience: Duration,
    client_patience: Duration,
    quarantine: Duration,
    fence: Fence,
    grace: Duration,
}

/// One request, besides its head and its body: an extension of the request.
#[derive(Clone)]
pub(super) struct Exchange {
    /// Whether the request may have reached the service.
    pub(super) sent: Arc<AtomicBool>,
    pub(super) from: SocketAddr,
    /// Takes the body for the client.
    pub(super) bodies: mpsc::Sender<Body>,
}

impl Upstream {
    pub(super) fn new(args: &ProxyArgs, fence: Fence) -> Upstream {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        let connector = Connector(connector);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.http2_only(args.upstream_http2).set_host(false);
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(UNUSED_TIMEOUT);
        let client = builder.build(connector.clone());
        // In HTTP/2 all requests share one, which does not end between them.
        let unused = if args.upstream_http2 { usize::MAX } else { 0 };
        Upstream {
            client,
            fresh: builder.pool_max_idle_per_host(unused).build(connector),
            uri: args.upstream.clone(),
            http2: args.upstream_http2,
            patience: args.upstream_timeout,
            client_patience: args.listen.client_timeout,
            quarantine: args.quarantine(),
            fence,
            grace: args.upload_grace,
        }
    }

    /// Sends a request, and returns the answer and its body.
    async fn exchange(
        self,
        request: Request<Upload>,
        from: SocketAddr,
    ) -> (Response<AtWork>, Body) {
        let (parts, mut upload) = request.into_parts();
        let progress = upload.progress();
        // A request that the fence has not admitted keeps nothing closed.
        let mut flight = None;
        if let Some(fenced) = parts.extensions.get::<Fenced>() {
            upload = upload.cut_by(superseded(self.fence.clone(), fenced.sequencers(), self.grace));
            flight = Some(Flight::new(self.quarantine, progress.clone()));
        }
        // It may have waited at the fence.
        progress.note();
        let request = match headers::forwarded(parts, upload, &self.uri, self.http2, from) {
            Ok(request) => request,
            Err(error) => return own(&Failed::NotSent(error.to_string()), None),
        };
        let client = if flight.is_some() { &self.fresh } else { &self.client };
        let mut answer = client.request(request);
        let head = tokio::select! {
            biased;
            head = &mut answer => head,
            () = no_progress(&progress, self.patience) => {
                tracing::warn!("the service has not answered in time");
                return own(&Failed::Late, flight.map(|flight| flight.hold(late(answer), "timeout")));
            }
        };
        let error = match head {
            Ok(response) => return self.pass_on(response, progress.until(), flight),
            Err(error) => error,
        };
        if error.is_connect() {
            refused("no_service");
            tracing::warn!(error = %say::chain(&error), "the service cannot be reached");
            let why = "the service behind the proxy cannot be reached";
            return own(&Failed::NotSent(why.into()), None);
        }
        let (failed, cause) = match progress.state() {
            UploadState::Failed if was_superseded(&error) => (Failed::Superseded, "superseded"),
            UploadState::Failed => (Failed::Upload, "upload"),
            _ => (Failed::Broken, "broken"),
        };
        tracing::warn!(error = %say::chain(&error), cause, "no answer of the service");
        own(&failed, flight.map(|flight| flight.hold(ready(Leftover::Unknown), cause)))
    }

    fn pass_on(
        &self,
        response: Response<Incoming>,
        until: Instant,
        mut flight: Option<Flight>,
    ) -> (Response<AtWork>, Body) {
        if let Some(flight) = &mut flight {
            flight.read_head(&response);
        }
        let (mut parts, body) = response.into_parts();
        if parts.status.is_informational() {
            // An upgrade without a request for one: the service speaks another protocol from here on.
            drop(body);
            let held = flight.map(|flight| flight.hold(ready(Leftover::Unknown), "broken"));
            return own(&Failed::Broken, held);
        }
        headers::answered(&mut parts.headers, parts.version);
        let patience = Patience { service: self.patience, client: self.client_patience, until };
        let (at_work, body) = if !body.is_end_stream() {
            let (client, read) = relay::Client::new(patience.client);
            (Some(relay::pass_on(body, client, flight, patience).boxed()), read)
        } else {
            let flight = flight.filter(|flight| !flight.is_sent());
            (flight.map(|flight| flight.upload(patience.service).boxed()), Body::empty())
        };
        (Response::from_parts(parts, AtWork::until(at_work)), body)
    }
}

/// Waits until a newer token has come, and for the grace behind that.
async fn superseded(fence: Fence, sequencers: Vec<Sequencer>, grace: Duration) {
    let newer = async || {
        for Sequencer { resource, token } in &sequencers {
            if fence.highest(resource).await.is_ok_and(|highest| highest > Some(*token)) {
                return true;
            }
        }
        false
    };
    loop {
        sleep(NEWER_INTERVAL).await;
        if newer().await {
            break;
        }
    }
    sleep(grace).await;
}

fn was_superseded(error: &Error) -> bool {
    let mut causes = successors(error.source(), |&error| error.source());
    causes.any(|cause| matches!(cause.downcast_ref(), Some(UploadError::Superseded)))
}

/// Waits for the answer that comes too late.
async fn late(answer: ResponseFuture) -> Leftover {
    match answer.await {
        Ok(response) => Leftover::HttpAnswer(response),
        Err(error) if error.is_connect() => Leftover::NotSent,
        Err(_) => Leftover::Unknown,
    }
}

/// Why the client gets an answer of the proxy's own.
enum Failed {
    NotSent(String),
    Broken,
    Late,
    Upload,
    Superseded,
}

/// Makes an answer of the proxy's own. The request is at work until the hold is over.
fn own(failed: &Failed, hold: Option<BoxFuture<'static, ()>>) -> (Response<AtWork>, Body) {
    let doubt = "the request may or may not have been carried out; read before you try again";
    let in_doubt = (Problem::IN_DOUBT, "No answer of the service, in doubt");
    let (status, kind, detail) = match failed {
        Failed::NotSent(why) => {
            let kind = (Problem::UNAVAILABLE, "Service unavailable");
            (StatusCode::BAD_GATEWAY, kind, format!("{why}; nothing was sent"))
        }
        Failed::Broken => {
            let why = format!("the service broke the connection off; {doubt}");
            (StatusCode::BAD_GATEWAY, in_doubt, why)
        }
        Failed::Late => {
            let why = format!("the service has not answered in time; {doubt}");
            (StatusCode::GATEWAY_TIMEOUT, in_doubt, why)
        }
        Failed::Upload => {
            (StatusCode::REQUEST_TIMEOUT, in_doubt, format!("the upload broke off; {doubt}"))
        }
        Failed::Superseded => {
            let kind = (Problem::SUPERSEDED, "Superseded by a newer token");
            let why = format!("a newer token came, and the upload was cut off; {doubt}");
            (StatusCode::SERVICE_UNAVAILABLE, kind, why)
        }
    };
    let retry_after = matches!(failed, Failed::NotSent(_)).then_some(1);
    let (parts, text) = problem(status, kind, &detail, retry_after).into_parts();
    (Response::from_parts(parts, AtWork::until(hold)), text)
}

impl Service<Request<Upload>> for Upstream {
    type Response = Response<AtWork>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<AtWork>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Upload>) -> Self::Future {
        let upstream = self.clone();
        let exchange = request.extensions_mut().remove::<Exchange>();
        async move {
            let Some(Exchange { sent, from, bodies }) = exchange else {
                return Ok(own(&Failed::NotSent("the request was not named".into()), None).0);
            };
            sent.store(true, Ordering::Relaxed);
            let (response, body) = upstream.exchange(request, from).await;
            let _ = bodies.try_send(body);
            Ok(response)
        }
        .boxed()
    }
}
