use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::Handler;
use super::strict::{Strict, Version};
use crate::args::Listen;

/// How many requests one connection in HTTP/2 may have at a time.
const STREAMS: u32 = 100;
/// The longest list of headers in HTTP/2, in bytes.
const HEADERS: u32 = 64 << 10;

/// One connection, as others see it.
pub(super) struct Connection {
    work: Mutex<Work>,
    close: Notify,
}

/// Whether a connection is at work, and since when it is not.
struct Work {
    requests: usize,
    since: Instant,
}

impl Connection {
    pub(super) fn new() -> Arc<Connection> {
        let work = Work { requests: 0, since: Instant::now() };
        Arc::new(Connection { work: Mutex::new(work), close: Notify::new() })
    }

    /// Since when it has had no request.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let work = self.work();
        (work.requests == 0).then_some(work.since)
    }

    /// Ends it, unless a request has come.
    pub(super) fn close(&self) {
        self.close.notify_one();
    }

    /// Waits until it is to end.
    async fn closed(&self) {
        loop {
            self.close.notified().await;
            if self.idle_since().is_some() {
                return;
            }
        }
    }

    /// Waits until there was no request for this long. HTTP/1 has its timer in hyper.
    async fn idle(&self, limit: Duration) {
        loop {
            let next = self.idle_since().unwrap_or_else(Instant::now) + limit;
            if next <= Instant::now() {
                return;
            }
            sleep_until(next).await;
        }
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves one connection until it ends, or until it is told to stop and is done.
pub(super) async fn serve<H: Handler>(
    stream: TcpStream,
    from: SocketAddr,
    settings: Listen,
    mut stop: watch::Receiver<bool>,
    me: Arc<Connection>,
    handler: H,
) {
    let _ = stream.set_nodelay(true);
    let mut stream = Strict::new(stream, settings.client_timeout);
    // A client that says nothing gets no answer.
    let version = tokio::select! {
        biased;
        version = timeout(settings.header_timeout, stream.version()) => version,
        _ = stop.wait_for(|stop| *stop) => return,
        () = me.closed() => return,
    };
    let Ok(Ok(Some(version))) = version else { return };
    let counted = Arc::clone(&me);
    let service = service_fn(move |request: Request<Incoming>| {
        let (handler, working) = (handler.clone(), Working::begin(&counted));
        async move {
            let answered: Result<Response<H::Body>, Infallible> =
                handler.handle(request, from).await;
            drop(working);
            answered
        }
    });
    let stopped = async {
        if stop.wait_for(|stop| *stop).await.is_err() {
            pending::<()>().await;
        }
    };
    let io = TokioIo::new(stream);
    match version {
        Version::Http1 => {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(settings.header_timeout);
            let mut connection = pin!(builder.serve_connection(io, service));
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = me.closed() => return,
                () = stopped => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            noted(ended);
        }
        Version::Http2 => {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
            builder.keep_alive_interval(settings.client_timeout).max_header_list_size(HEADERS);
            builder.keep_alive_timeout(settings.client_timeout);
            let mut connection = pin!(builder.serve_connection(io, service));
            let ended = tokio::select! {
                ended = connection.as_mut() => ended,
                () = async {
                    tokio::select! {
                        () = stopped => {}
                        () = me.closed() => {}
                        () = me.idle(settings.client_timeout) => {}
                    }
                } => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            noted(ended);
        }
    }
}

fn noted(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// One request at work.
struct Working(Arc<Connection>);

impl Working {
    fn begin(connection: &Arc<Connection>) -> Working {
        connection.work().requests += 1;
        Working(Arc::clone(connection))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut work = self.0.work();
        work.requests -= 1;
        work.since = Instant::now();
    }
}
