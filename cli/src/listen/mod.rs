//! The listener of `serve`, `proxy` and `exporter`: bounds on everything, the status port, an orderly end.

mod answer;
mod connection;
mod status;
mod tls;
mod upload;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::Request;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::util::BoxCloneSyncService;

pub(crate) use answer::{HttpAnswer, MALFORMED, ProblemKind, Refused, in_grpc, response};
pub(crate) use status::{Gauged, gauged, record_metrics, status, yaml};
pub(crate) use tls::TlsArgs;
pub(crate) use upload::{Progress, UploadState, bounded};

use crate::duration::{self, show};
use crate::exit::{Failure, Status};
use crate::say;
use crate::signals::Signals;
use crate::watched_files::WatchedFiles;

/// Pause after an error of the system, such as too many open files, and for a connection to end.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The addresses of a service, and the bounds for its clients.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connections")]
pub(crate) struct Listen {
    /// Address for requests, in HTTP/1 and HTTP/2. Port 0 takes a free one: the first lines of the output say which.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7433")]
    pub(crate) listen: SocketAddr,
    /// A second port for operators: /livez, /readyz, /metrics and /openapi.yaml.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7434")]
    pub(crate) status: SocketAddr,
    #[command(flatten)]
    pub(crate) bounds: Bounds,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

/// What the clients of a port may take, also at its end.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Bounds {
    /// Time for requests to end after SIGTERM. A second signal ends the process at once.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub(crate) stop_within: Duration,
    /// Time limit for a client to send the head of a request, and for its connection to stay open without a request.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    header_timeout: Duration,
    /// The longest pause of a client while it sends a body, or reads an answer. A slow reader counts as paused until it
    /// has taken the next piece of about 64 KiB.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub(crate) client_timeout: Duration,
    /// Limit of open connections. A further one closes those that were idle for a second, or waits while all are busy.
    #[arg(long, value_name = "NUMBER", default_value_t = 1024, value_parser = count)]
    pub(crate) connections: usize,
}

/// The bounds of a port that has operators alone as its clients.
const ALONE: Bounds = Bounds {
    stop_within: Duration::from_secs(2),
    header_timeout: Duration::from_secs(10),
    client_timeout: Duration::from_secs(10),
    connections: 64,
};

pub(crate) fn count(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    number.ok_or_else(|| "give a number from 1 to 1000000".to_owned())
}

/// Answers requests, which have the `SocketAddr` of their client. The answer is dropped when the client goes away.
pub(crate) type Answers = BoxCloneSyncService<Request<Body>, HttpAnswer, Infallible>;

pub(crate) struct Listener {
    requests: TcpListener,
    status: TcpListener,
    tls: Option<WatchedFiles<TlsAcceptor>>,
    bounds: Bounds,
    recorder: PrometheusHandle,
    pub(crate) stop: CancellationToken,
}

impl Listener {
    pub(crate) async fn bind(settings: &Listen, recorder: PrometheusHandle) -> Result<Listener, Failure> {
        let tls = settings.tls.open()?;
        if tls.is_none() && !settings.listen.ip().is_loopback() {
            say::error("warning: requests and tokens cross the network as plain text: give --tls-cert and --tls-key");
        }
        let (requests, status) = (bind(settings.listen).await?, bind(settings.status).await?);
        Ok(Listener { requests, status, tls, bounds: settings.bounds, recorder, stop: CancellationToken::new() })
    }

    /// Answers requests until a signal comes, and then waits for the open connections and for `settled`. The pages for
    /// operators say whether it is `ready`, and have the description of the requests.
    pub(crate) async fn run<R: Future<Output = Result<(), String>> + Send + 'static>(
        self,
        answers: Answers,
        openapi: &'static str,
        ready: impl FnOnce() -> R + Clone + Send + Sync + 'static,
        settled: impl Future<Output = ()>,
    ) -> Result<Status, Failure> {
        let mut signals = Signals::listen()?;
        if let (Ok(requests), Ok(status)) = (self.requests.local_addr(), self.status.local_addr()) {
            let scheme = if self.tls.is_some() { "https" } else { "http" };
            say::out(format_args!("requests on {scheme}://{requests}\nstatus on http://{status}\n"));
        }
        let Listener { bounds, stop, tls, .. } = self;
        let status = status(self.recorder, ready, None, stop.clone());
        let status = status.route("/openapi.yaml", get(async move || yaml(openapi)));
        // The second port answers until the end: it says that the process stops.
        let status = Port::new(bounds, Answers::new(status), &CancellationToken::new());
        tokio::spawn(status.accept(self.status));
        let requests = Port { tls, ..Port::new(bounds, answers, &stop) }.accept(self.requests);
        let requests = tokio::spawn(requests);
        signals.next().await;
        say::notice("stopping: requests in flight finish\n");
        stop.cancel();
        let last = async {
            let _ = requests.await;
            settled.await;
        };
        tokio::select! {
            ended = timeout(bounds.stop_within, last) => ended.map(|()| Status::DONE).map_err(|_| {
                let bound = show(bounds.stop_within);
                let why = format_args!("some requests had not ended after {bound}; their work may continue");
                Failure::new(Status::HELD, why)
            }),
            again = signals.next() => {
                let why = "stopped by a second signal; some requests had not ended";
                Err(Failure::new(Status::by_signal(again.as_raw()), why))
            }
        }
    }
}

/// Answers operators alone, on one port, until a signal comes.
pub(crate) async fn run_alone(address: SocketAddr, status: Router) -> Result<Status, Failure> {
    let listener = bind(address).await?;
    let mut signals = Signals::listen()?;
    let address = listener.local_addr().map_err(Failure::failed)?;
    say::out(format_args!("status on http://{address}\n"));
    let stop = CancellationToken::new();
    let answers = tokio::spawn(Port::new(ALONE, Answers::new(status), &stop).accept(listener));
    signals.next().await;
    stop.cancel();
    let _ = timeout(ALONE.stop_within, answers).await;
    Ok(Status::DONE)
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| Failure::failed(format_args!("cannot listen on {address}: {error}")))
}

#[derive(Clone)]
struct Port {
    bounds: Bounds,
    answers: Answers,
    stop: CancellationToken,
    tls: Option<WatchedFiles<TlsAcceptor>>,
    /// Notified while another connection needs a place: those that are kept for later must not keep out a renewal.
    full: Arc<Notify>,
}

impl Port {
    fn new(bounds: Bounds, answers: Answers, stop: &CancellationToken) -> Port {
        Port { bounds, answers, stop: stop.clone(), tls: None, full: Arc::default() }
    }

    /// Accepts connections until the process stops, and then waits until all of them have ended.
    async fn accept(self, listener: TcpListener) {
        let connections = TaskTracker::new();
        let permits = Arc::new(Semaphore::new(self.bounds.connections));
        let accepting = async {
            loop {
                let (stream, from) = match listener.accept().await {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::warn!(%error, "connection not accepted");
                        sleep(RETRY_INTERVAL).await;
                        continue;
                    }
                };
                // The next ones wait in the queue of the system.
                let permit = loop {
                    match timeout(RETRY_INTERVAL, Arc::clone(&permits).acquire_owned()).await {
                        Ok(permit) => break permit,
                        Err(_) => self.full.notify_waiters(),
                    }
                };
                connections.spawn(connection::serve(stream, from, self.clone(), permit));
            }
        };
        self.stop.run_until_cancelled(accepting).await;
        drop(listener);
        connections.close();
        connections.wait().await;
    }
}
