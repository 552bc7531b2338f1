use std::error::Error as _;
use std::future::ready;
use std::iter::successors;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use fencing::http::{Fenced, Problem};
use fencing::{Fence, Sequencer};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{Instant, sleep};

use super::args::ProxyArgs;
use super::behind_fence::Admission;
use super::connector::{Connector, Stream};
use super::counted::refused;
use super::flight::{Flight, Leftover};
use super::headers;
use super::relay;
use crate::listen::{HttpAnswer, ProblemKind, Upload, UploadError, UploadState};
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
    fence: Fence,
    args: Arc<ProxyArgs>,
}

/// The answer for a client, and until when the request is in flight behind it.
type Exchanged = (HttpAnswer, Option<BoxFuture<'static, ()>>);

impl Upstream {
    pub(super) fn new(args: Arc<ProxyArgs>, fence: Fence) -> Upstream {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        let connector = Connector::new(connector, Stream::new);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.http2_only(args.upstream_http2).set_host(false);
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(UNUSED_TIMEOUT);
        let client = builder.build(connector.clone());
        // In HTTP/2 all requests share one, which does not end between them.
        let unused = if args.upstream_http2 { usize::MAX } else { 0 };
        let fresh = builder.pool_max_idle_per_host(unused).build(connector);
        Upstream { client, fresh, fence, args }
    }

    /// Sends a request that the fence has let through. When the admission is dropped, newer requests are let in.
    pub(super) async fn exchange(
        &self,
        request: Request<Upload>,
        admission: Admission,
    ) -> Exchanged {
        let (args, (parts, mut upload)) = (&self.args, request.into_parts());
        let progress = upload.progress();
        // A request that the fence has not admitted keeps nothing closed.
        let mut flight = None;
        if let Some(fenced) = parts.extensions.get::<Fenced>() {
            let newer = superseded(self.fence.clone(), fenced.sequencers(), args.upload_grace);
            upload = upload.cut_by(newer);
            flight = Some(Flight::new(args.quarantine(), progress.clone(), admission));
        }
        // It may have waited at the fence.
        progress.note();
        let http2 = args.upstream_http2;
        let request = match headers::forwarded(parts, upload, &args.upstream, http2) {
            Ok(request) => request,
            Err(error) => return not_sent(&error.to_string()),
        };
        let client = if flight.is_some() { &self.fresh } else { &self.client };
        let mut answer = client.request(request);
        let head = tokio::select! {
            biased;
            head = &mut answer => head,
            () = progress.stalled(args.upstream_timeout) => {
                tracing::warn!("the service has not answered in time");
                return in_doubt(LATE, flight.map(|flight| flight.hold(late(answer), "timeout")));
            }
        };
        let error = match head {
            Ok(response) => return self.pass_on(response, progress.until, flight),
            Err(error) => error,
        };
        if error.is_connect() {
            refused("no_service");
            tracing::warn!(error = %say::chain(&error), "the service cannot be reached");
            return not_sent("the service behind the proxy cannot be reached");
        }
        let (failed, cause) = match progress.state() {
            UploadState::Failed if was_superseded(&error) => (SUPERSEDED, "superseded"),
            UploadState::Failed => (UPLOAD, "upload"),
            _ => (BROKEN, "broken"),
        };
        tracing::warn!(error = %say::chain(&error), cause, "no answer of the service");
        in_doubt(failed, flight.map(|flight| flight.hold(ready(Leftover::Unknown), cause)))
    }

    fn pass_on(
        &self,
        response: Response<Incoming>,
        until: Instant,
        mut flight: Option<Flight>,
    ) -> Exchanged {
        if let Some(flight) = &mut flight {
            flight.read_head(&response);
        }
        let (mut parts, body) = response.into_parts();
        if parts.status.is_informational() {
            // An upgrade without a request for one: the service speaks another protocol from here on.
            drop(body);
            let held = flight.map(|flight| flight.hold(ready(Leftover::Unknown), "broken"));
            return in_doubt(BROKEN, held);
        }
        headers::answered(&mut parts.headers, parts.version);
        let (service, client) = (self.args.upstream_timeout, self.args.listen.client_timeout);
        let (at_work, body) = if !body.is_end_stream() {
            let (client, read) = relay::Client::new(client);
            (Some(relay::pass_on(body, client, flight, service, until).boxed()), read)
        } else {
            let flight = flight.filter(|flight| !flight.is_sent());
            (flight.map(|flight| flight.upload(service).boxed()), Body::empty())
        };
        (Response::from_parts(parts, body), at_work)
    }
}

/// Waits for a newer token, and then for the grace.
async fn superseded(fence: Fence, sequencers: Vec<Sequencer>, grace: Duration) {
    loop {
        sleep(NEWER_INTERVAL).await;
        for Sequencer { resource, token } in &sequencers {
            if fence.highest(resource).await.is_ok_and(|highest| highest > Some(*token)) {
                return sleep(grace).await;
            }
        }
    }
}

fn was_superseded(error: &Error) -> bool {
    let mut causes = successors(error.source(), |&error| error.source());
    causes.any(|cause| matches!(cause.downcast_ref(), Some(UploadError::Superseded)))
}

/// Waits for the answer that comes too late.
async fn late(answer: ResponseFuture) -> Leftover {
    match answer.await {
        Ok(response) => Leftover::Answer(response),
        Err(error) if error.is_connect() => Leftover::NotSent,
        Err(_) => Leftover::Unknown,
    }
}

const NOT_SENT: ProblemKind =
    ProblemKind::new(StatusCode::BAD_GATEWAY, Problem::UNAVAILABLE, "Service unavailable")
        .retry_after(1);

/// Why a request may or may not have been carried out.
type Doubt = (ProblemKind, &'static str);
const BROKEN: Doubt = (no_answer(StatusCode::BAD_GATEWAY), "the service broke the connection off");
const LATE: Doubt =
    (no_answer(StatusCode::GATEWAY_TIMEOUT), "the service has not answered in time");
const UPLOAD: Doubt = (no_answer(StatusCode::REQUEST_TIMEOUT), "the upload broke off");
const SUPERSEDED: Doubt = (
    ProblemKind::new(
        StatusCode::SERVICE_UNAVAILABLE,
        Problem::SUPERSEDED,
        "Superseded by a newer token",
    ),
    "a newer token came, and the upload was cut off",
);

const fn no_answer(status: StatusCode) -> ProblemKind {
    ProblemKind::new(status, Problem::IN_DOUBT, "No answer of the service, in doubt")
}

fn not_sent(why: &str) -> Exchanged {
    (NOT_SENT.answer(format_args!("{why}; nothing was sent")), None)
}

fn in_doubt((kind, why): Doubt, hold: Option<BoxFuture<'static, ()>>) -> Exchanged {
    let doubt = "the request may or may not have been carried out; read before you try again";
    (kind.answer(format_args!("{why}; {doubt}")), hold)
}
