//! What `serve`, `proxy` and `exporter` listen with: connections in HTTP/1 and HTTP/2 with bounds on
//! everything, a second port for operators, and an end in order.

mod ambiguous;
mod answer;
mod connection;
mod status;
mod upload;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

pub(crate) use answer::{HttpAnswer, answer, problem};
pub(crate) use status::{record_metrics, status, yaml};
pub(crate) use upload::{Progress, Upload, UploadError, UploadState};

use connection::ClientConnection;

use crate::args::Listen;
use crate::duration::show;
use crate::exit::Failure;
use crate::signals::Signals;
use crate::{exit, say};

/// How long it waits after an error of the system, such as too many open files, and for a connection to end.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// What answers requests.
pub(crate) trait Handler: Clone + Send + Sync + 'static {
    /// Answers one request. It is dropped when the client goes away.
    fn handle(
        &self,
        request: Request<Incoming>,
        from: SocketAddr,
    ) -> impl Future<Output = Response<Body>> + Send;
}

impl Handler for Router {
    async fn handle(&self, request: Request<Incoming>, _: SocketAddr) -> Response<Body> {
        let Ok(response) = self.clone().call(request).await;
        response
    }
}

/// Two ports, bound.
pub(crate) struct Listener {
    requests: TcpListener,
    status: TcpListener,
    settings: Listen,
    /// Cancelled when the process is to stop.
    pub(crate) stop: CancellationToken,
}

impl Listener {
    /// Binds both ports.
    pub(crate) async fn bind(settings: &Listen) -> Result<Listener, Failure> {
        Ok(Listener {
            requests: bind(settings.listen).await?,
            status: bind(settings.status).await?,
            settings: settings.clone(),
            stop: CancellationToken::new(),
        })
    }

    /// Answers requests until a signal comes. Then it takes no new connections, waits for the end of
    /// those that it has and for `settled`, and returns the exit status.
    pub(crate) async fn run(
        self,
        handler: impl Handler,
        status: Router,
        settled: impl Future<Output = ()>,
    ) -> Result<u8, Failure> {
        let mut signals = Signals::listen()?;
        if let (Ok(requests), Ok(status)) = (self.requests.local_addr(), self.status.local_addr()) {
            say::out(format_args!("requests on http://{requests}\nstatus on http://{status}\n"));
        }
        let Listener { settings, stop, .. } = self;
        // The second port answers until the end: it says that the process stops.
        tokio::spawn(accept(self.status, settings.clone(), CancellationToken::new(), status));
        let requests = accept(self.requests, settings.clone(), stop.clone(), handler);
        let requests = tokio::spawn(requests);
        signals.next().await;
        say::notice("stopping: requests in flight finish\n");
        stop.cancel();
        let last = async {
            let _ = requests.await;
            settled.await;
        };
        let ended = tokio::select! {
            ended = timeout(settings.stop_within, last) => ended,
            again = signals.next() => {
                let why = "stopped by a second signal; some requests had not ended";
                return Err(Failure::new(exit::by_signal(again.as_raw()), why));
            }
        };
        let late = |_| {
            let bound = show(settings.stop_within);
            let why = "what they do may go on";
            Failure::new(
                exit::HELD,
                format_args!("some requests had not ended after {bound}; {why}"),
            )
        };
        ended.map(|()| 0).map_err(late)
    }
}

/// Answers operators alone, on one port, until a signal comes.
pub(crate) async fn run_alone(settings: Listen, status: Router) -> Result<u8, Failure> {
    let listener = bind(settings.listen).await?;
    let mut signals = Signals::listen()?;
    let address = listener.local_addr().map_err(Failure::failed)?;
    say::out(format_args!("status on http://{address}\n"));
    let (stop, within) = (CancellationToken::new(), settings.stop_within);
    let answers = tokio::spawn(accept(listener, settings, stop.clone(), status));
    signals.next().await;
    stop.cancel();
    let _ = timeout(within, answers).await;
    Ok(0)
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| Failure::failed(format_args!("cannot listen on {address}: {error}")))
}

/// Accepts connections until `stop`, and then waits until all of them have ended.
async fn accept(
    listener: TcpListener,
    settings: Listen,
    stop: CancellationToken,
    handler: impl Handler,
) {
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(settings.connections));
    // Connections that are kept for later must not keep out a renewal.
    let full = Arc::new(Notify::new());
    let accepting = async {
        loop {
            let (stream, from) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "no connection taken");
                    sleep(RETRY_INTERVAL).await;
                    continue;
                }
            };
            // The next ones wait in the queue of the system.
            let place = loop {
                match timeout(RETRY_INTERVAL, Arc::clone(&places).acquire_owned()).await {
                    Ok(place) => break place,
                    Err(_) => full.notify_waiters(),
                }
            };
            let (settings, full, stop) = (settings.clone(), Arc::clone(&full), stop.clone());
            let connection = ClientConnection { stream, from, settings, full, stop };
            let served = connection.serve(handler.clone());
            connections.spawn(async move {
                served.await;
                drop(place);
            });
        }
    };
    stop.run_until_cancelled(accepting).await;
    drop(listener);
    connections.close();
    connections.wait().await;
}
