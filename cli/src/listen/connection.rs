use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fencing::http::Problem;
use http::{Request, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_io_timeout::TimeoutWriter;

use super::ambiguous::ambiguous;
use super::{Handler, problem};
use crate::args::Listen;

/// How many requests one connection in HTTP/2 may have at a time.
const STREAMS: u32 = 100;
/// The longest list of headers, in bytes.
const MAX_HEADERS: u32 = 64 << 10;
/// How long a connection that is ended has for its last bytes.
const CLOSING: Duration = Duration::from_millis(100);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// One connection, as others see it.
pub(super) struct Connection {
    work: Mutex<Work>,
    close: Notify,
}

/// Whether a connection is at work, and since when it is not.
struct Work {
    requests: usize,
    since: Instant,
    /// Whether it has had a request.
    begun: bool,
}

impl Connection {
    pub(super) fn new() -> Arc<Connection> {
        let work = Work { requests: 0, since: Instant::now(), begun: false };
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

    /// Waits until it is to end: for another one, or because the client sends no request. Within HTTP/1
    /// hyper has its own timer for the next head.
    async fn unused(&self, settings: &Listen) {
        tokio::select! {
            () = self.closed() => {}
            () = self.idle(settings) => {}
        }
    }

    async fn closed(&self) {
        loop {
            self.close.notified().await;
            if self.idle_since().is_some() {
                return;
            }
        }
    }

    async fn idle(&self, settings: &Listen) {
        loop {
            let begun = self.work().begun;
            let limit = if begun { settings.client_timeout } else { settings.header_timeout };
            let next = self.idle_since().unwrap_or_else(Instant::now) + limit;
            if next <= Instant::now() {
                return;
            }
            sleep_until(next).await;
        }
    }

    /// Waits until nothing is lost if it is cut off.
    async fn ended(&self) {
        loop {
            sleep(CLOSING).await;
            if self.idle_since().is_some() {
                return;
            }
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
    // Ends a connection whose client does not read its answer.
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(settings.client_timeout));
    let counted = Arc::clone(&me);
    let service = service_fn(move |request: Request<Incoming>| {
        let (handler, working) = (handler.clone(), Working::begin(&counted));
        async move {
            let answer = match ambiguous(&request) {
                Some(why) => {
                    note_malformed(why);
                    let kind = (Problem::MALFORMED, "Malformed request");
                    let answer = problem(StatusCode::BAD_REQUEST, kind, why, None);
                    answer.map(|body| working.until_end_of(body))
                }
                None => {
                    let Ok(answer) = handler.handle(request, from).await;
                    answer.map(|body| working.until_end_of(body))
                }
            };
            Ok::<_, Infallible>(answer)
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    let mut http1 = builder.http1();
    http1.timer(TokioTimer::new()).header_read_timeout(settings.header_timeout);
    http1.max_buf_size(MAX_HEADERS as usize);
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
    http2.keep_alive_interval(settings.client_timeout).max_header_list_size(MAX_HEADERS);
    http2.keep_alive_timeout(settings.client_timeout);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(Box::pin(stream)), service));
    let stopped = async { drop(stop.wait_for(|stop| *stop).await) };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = me.unused(&settings) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = me.ended() => return,
            }
        }
    };
    let Err(error) = ended else { return };
    if error.downcast_ref().is_some_and(hyper::Error::is_parse) {
        return note_malformed(&error.to_string());
    }
    tracing::debug!(%error, "connection ended");
}

fn note_malformed(why: &str) {
    tracing::warn!(why, "request refused: it is malformed");
    metrics::counter!("fencing_requests_malformed_total").increment(1);
}

/// One request at work.
struct Working(Arc<Connection>);

impl Working {
    fn begin(connection: &Arc<Connection>) -> Working {
        let mut work = connection.work();
        (work.requests, work.begun) = (work.requests + 1, true);
        drop(work);
        Working(Arc::clone(connection))
    }

    /// Stays at work until the answer has ended.
    fn until_end_of<B>(self, body: B) -> UnsyncBoxBody<Bytes, BoxError>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let held = move |error: B::Error| {
            let _ = &self;
            error.into()
        };
        body.map_err(held).boxed_unsync()
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut work = self.0.work();
        work.requests -= 1;
        work.since = Instant::now();
    }
}
