//! What `serve` and `proxy` listen with: connections in HTTP/1 and HTTP/2 with bounds on everything, a
//! second port for operators, and an end in order.

mod ambiguous;
mod answer;
mod connection;
mod recorder;
mod status;
mod upload;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub(crate) use answer::{Answer, Full, JSON, answer, problem};
pub(crate) use recorder::{Recorder, record_metrics};
pub(crate) use status::{Ready, Status};
pub(crate) use upload::{Progress, Stalled, Upload};

use connection::Connection;

use crate::args::Listen;
use crate::duration::show;
use crate::signals::Signals;
use crate::{exit, say};

/// How long it waits after an error of the system, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);
/// A connection that has had no request for this long may be ended for another one.
const IDLE: Duration = Duration::from_secs(1);

/// What answers requests.
pub(crate) trait Handler: Clone + Send + 'static {
    type Body: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + 'static;

    /// Answers one request. It is dropped when the client goes away.
    fn handle(
        &self,
        request: Request<Incoming>,
        from: SocketAddr,
    ) -> impl Future<Output = Result<Response<Self::Body>, Infallible>> + Send;
}

/// Two ports, bound.
pub(crate) struct Listener {
    requests: TcpListener,
    status: TcpListener,
    settings: Listen,
    /// Turns true when the process is to stop.
    stop: watch::Sender<bool>,
}

impl Listener {
    /// Binds both ports, and says where they are.
    pub(crate) async fn bind(settings: &Listen) -> Result<Listener, String> {
        let requests = bind(settings.listen).await?;
        let status = bind(settings.status).await?;
        Ok(Listener {
            requests,
            status,
            settings: settings.clone(),
            stop: watch::Sender::new(false),
        })
    }

    /// Turns true when the process is to stop.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Answers requests until a signal comes. Then it takes no new connections, waits until those that
    /// it has are done, and until `settled` is, and returns the exit status.
    pub(crate) async fn run(
        self,
        handler: impl Handler,
        status: impl Handler,
        settled: impl Future<Output = ()>,
    ) -> u8 {
        let mut signals = match Signals::listen() {
            Ok(signals) => signals,
            Err(error) => {
                say::error(format_args!("cannot listen for signals: {error}"));
                return exit::FAILED;
            }
        };
        if let (Ok(requests), Ok(status)) = (self.requests.local_addr(), self.status.local_addr()) {
            say::out(format_args!("requests on http://{requests}\nstatus on http://{status}\n"));
        }
        let settings = &self.settings;
        // The second port answers until the end: it says that the process stops.
        let (_last, never) = watch::channel(false);
        let status = accept(self.status, settings.clone(), never, status);
        let status = tokio::spawn(status);
        let requests = accept(self.requests, settings.clone(), self.stop.subscribe(), handler);
        let requests = tokio::spawn(requests);
        signals.next().await;
        say::notice("stopping: requests in flight finish\n");
        self.stop.send_replace(true);
        let last = async {
            let _ = requests.await;
            settled.await;
        };
        let ended = tokio::select! {
            ended = timeout(settings.stop_within, last) => ended.is_ok(),
            again = signals.next() => {
                say::error("stopped by a second signal; some requests had not ended");
                return exit::by_signal(again.as_raw());
            }
        };
        status.abort();
        if ended {
            return 0;
        }
        let bound = settings.stop_within;
        say::error(format_args!(
            "some requests had not ended after {}; what they do may go on",
            show(bound)
        ));
        exit::HELD
    }
}

/// Answers on one port until a signal comes, and returns the exit status.
pub(crate) async fn run_alone(settings: Listen, handler: impl Handler) -> Result<u8, String> {
    let bound = bind(settings.listen).await?;
    let mut signals =
        Signals::listen().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let address = bound.local_addr().map_err(|error| error.to_string())?;
    say::out(format_args!("status on http://{address}\n"));
    let stop = watch::Sender::new(false);
    let (within, stopping) = (settings.stop_within, stop.subscribe());
    let answers = tokio::spawn(accept(bound, settings, stopping, handler));
    signals.next().await;
    stop.send_replace(true);
    let _ = timeout(within, answers).await;
    Ok(0)
}

async fn bind(address: SocketAddr) -> Result<TcpListener, String> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| format!("cannot listen on {address}: {error}"))
}

/// Takes connections until it is told to stop, and waits for those that it has.
async fn accept<H: Handler>(
    listener: TcpListener,
    settings: Listen,
    mut stop: watch::Receiver<bool>,
    handler: H,
) {
    let (mut open, mut connections) = (Vec::<Weak<Connection>>::new(), JoinSet::new());
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "no connection taken");
                sleep(PAUSE).await;
                continue;
            }
        };
        // The next ones wait in the queue of the system.
        while connections.len() >= settings.connections && !*stop.borrow() {
            close_idlest(&open);
            let _ = timeout(PAUSE, connections.join_next()).await;
        }
        if open.len() > 2 * connections.len() {
            open.retain(|connection| connection.strong_count() > 0);
        }
        let connection = Connection::new();
        open.push(Arc::downgrade(&connection));
        let (handler, settings, stop) = (handler.clone(), settings.clone(), stop.clone());
        connections.spawn(connection::serve(stream, from, settings, stop, connection, handler));
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Ends the connection that has had no request for the longest time, if any has had none for a while: connections that
/// are kept for later must not keep out a renewal.
fn close_idlest(open: &[Weak<Connection>]) {
    let idle = open.iter().filter_map(Weak::upgrade).filter_map(|connection| {
        let since = connection.idle_since().filter(|since| since.elapsed() >= IDLE)?;
        Some((since, connection))
    });
    if let Some((_, connection)) = idle.min_by_key(|(since, _)| *since) {
        connection.close();
    }
}
