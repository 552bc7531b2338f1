use std::convert::Infallible;
use std::error::Error as _;
use std::iter::successors;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fencing::http::{Fenced, Problem};
use fencing::{Fence, Sequencer};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tower_service::Service;

use super::connector::Connector;
use super::counted::refused;
use super::headers;
use super::held::{Flight, Hold, Rest, UpstreamBody, hold, no_progress};
use crate::args::Proxy;
use crate::listen::{Stalled, Upload};

/// How long a connection to the service may take. A request that has none was not sent.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an unused connection to the service is kept, for requests that the fence has not admitted.
const UNUSED: Duration = Duration::from_secs(15);
/// How often a long upload looks whether a newer token has come.
const LOOK: Duration = Duration::from_secs(1);

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
    quarantine: Duration,
    fence: Fence,
    grace: Duration,
}

/// Whether the request may have reached the service, and whose it is. Stands in its extensions.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) at_all: Arc<AtomicBool>,
    pub(super) from: SocketAddr,
}

impl Upstream {
    pub(super) fn new(args: &Proxy, fence: Fence) -> Upstream {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_nodelay(true);
        let connector = Connector(connector);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.http2_only(args.upstream_http2).set_host(false);
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(UNUSED);
        let client = builder.build(connector.clone());
        // In HTTP/2 all requests share one, which does not end between them.
        let unused = if args.upstream_http2 { usize::MAX } else { 0 };
        Upstream {
            client,
            fresh: builder.pool_max_idle_per_host(unused).build(connector),
            uri: args.upstream.clone(),
            http2: args.upstream_http2,
            patience: args.upstream_timeout,
            quarantine: args.quarantine(),
            fence,
            grace: args.upload_grace,
        }
    }

    async fn exchange(self, request: Request<Upload>, from: SocketAddr) -> Response<UpstreamBody> {
        let (parts, mut upload) = request.into_parts();
        // A request that the fence has not admitted keeps nothing closed.
        let fenced = parts.extensions.get::<Fenced>();
        if let Some(fenced) = fenced {
            upload = upload.cut_by(superseded(self.fence.clone(), fenced.sequencers(), self.grace));
        }
        let fenced = fenced.is_some();
        let progress = upload.progress();
        let flight = fenced.then(|| Flight::new(self.quarantine, upload.progress()));
        // It may have waited at the fence.
        progress.note();
        let request = headers::forwarded(parts, upload, &self.uri, self.http2, from);
        let request = match request {
            Ok(request) => request,
            Err(error) => return own(&Failed::NotSent(error.to_string()), None),
        };
        let client = if fenced { &self.fresh } else { &self.client };
        let mut answer = client.request(request);
        let head = tokio::select! {
            biased;
            head = &mut answer => Some(head),
            () = no_progress(&progress, self.patience) => None,
        };
        match head {
            Some(Ok(response)) => self.pass_on(response, progress.until(), flight),
            Some(Err(error)) if error.is_connect() => {
                refused("no_service");
                tracing::warn!(error = %crate::say::chain(&error), "the service cannot be reached");
                own(&Failed::NotSent("the service behind the proxy cannot be reached".into()), None)
            }
            Some(Err(error)) => {
                let (failed, cause) = match progress.has_failed() {
                    true if was_superseded(&error) => (Failed::Superseded, "superseded"),
                    true => (Failed::Upload, "upload"),
                    false => (Failed::Broken, "broken"),
                };
                tracing::warn!(error = %crate::say::chain(&error), cause, "no answer of the service");
                own(&failed, flight.map(|flight| hold(async { Rest::Unknown }, flight, cause)))
            }
            None => {
                tracing::warn!("the service has not answered in time");
                let held = flight.map(|flight| late(answer, flight));
                own(&Failed::Late, held)
            }
        }
    }

    fn pass_on(
        &self,
        response: Response<Incoming>,
        until: Instant,
        mut flight: Option<Flight>,
    ) -> Response<UpstreamBody> {
        if let Some(flight) = &mut flight {
            flight.hear(&response);
        }
        let (mut parts, body) = response.into_parts();
        if parts.status.is_informational() {
            // An upgrade that nobody has asked for: the service speaks something else from here on.
            drop(body);
            let held = flight.map(|flight| hold(async { Rest::Unknown }, flight, "broken"));
            return own(&Failed::Broken, held);
        }
        headers::answered(&mut parts.headers, parts.version);
        let body = UpstreamBody::answer(body, self.patience, until, flight);
        parts.extensions.insert(body.told());
        Response::from_parts(parts, body)
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
        sleep(LOOK).await;
        if newer().await {
            break;
        }
    }
    sleep(grace).await;
}

fn was_superseded(error: &Error) -> bool {
    let mut causes = successors(error.source(), |&error| error.source());
    causes.any(|cause| matches!(cause.downcast_ref(), Some(Stalled::Superseded)))
}

/// Holds until the answer that came too late has come.
fn late(
    answer: impl Future<Output = Result<Response<Incoming>, Error>> + Send + 'static,
    flight: Flight,
) -> Hold {
    let answered = async move {
        match answer.await {
            Ok(response) => Rest::Answer(response),
            Err(error) if error.is_connect() => Rest::NotSent,
            Err(_) => Rest::Unknown,
        }
    };
    hold(answered, flight, "timeout")
}

/// Why the client gets an answer of the proxy's own.
enum Failed {
    NotSent(String),
    Broken,
    Late,
    Upload,
    Superseded,
}

/// Makes an answer whose body lasts until the hold is over. Its length tells the client where it ends.
fn own(failed: &Failed, hold: Option<Hold>) -> Response<UpstreamBody> {
    let doubt = "the request may or may not have been carried out; read before you try again";
    let (status, detail) = match failed {
        Failed::NotSent(why) => (StatusCode::BAD_GATEWAY, format!("{why}; nothing was sent")),
        Failed::Broken => {
            (StatusCode::BAD_GATEWAY, format!("the service broke the connection off; {doubt}"))
        }
        Failed::Late => {
            (StatusCode::GATEWAY_TIMEOUT, format!("the service has not answered in time; {doubt}"))
        }
        Failed::Upload => (StatusCode::REQUEST_TIMEOUT, format!("the upload broke off; {doubt}")),
        Failed::Superseded => {
            let why = "a newer token came, and the upload was cut off";
            (StatusCode::SERVICE_UNAVAILABLE, format!("{why}; {doubt}"))
        }
    };
    let (kind, title) = match failed {
        Failed::NotSent(_) => (Problem::UNAVAILABLE, "Service unavailable"),
        Failed::Superseded => (Problem::SUPERSEDED, "Superseded by a newer token"),
        _ => (Problem::IN_DOUBT, "No answer of the service, in doubt"),
    };
    let number = status.as_u16();
    let text = json!({ "type": kind, "title": title, "status": number, "detail": detail });
    let text = Bytes::from(text.to_string());
    let length = HeaderValue::from(text.len());
    let mut response = Response::new(UpstreamBody::own(text, hold));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(Problem::CONTENT_TYPE));
    headers.insert(CONTENT_LENGTH, length);
    if matches!(failed, Failed::NotSent(_)) {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

impl Service<Request<Upload>> for Upstream {
    type Response = Response<UpstreamBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<UpstreamBody>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Upload>) -> Self::Future {
        let upstream = self.clone();
        let Some(Sent { at_all, from }) = request.extensions_mut().remove::<Sent>() else {
            let failed = Failed::NotSent("the request was not named".into());
            return async move { Ok(own(&failed, None)) }.boxed();
        };
        at_all.store(true, Ordering::Relaxed);
        async move { Ok(upstream.exchange(request, from).await) }.boxed()
    }
}
