use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::{HOST, TRANSFER_ENCODING};
use http::{HeaderValue, Request, Response, Version};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use parking_lot::Mutex;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_io_timeout::TimeoutWriter;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tower::Service as _;

use super::{Answers, Bounds, MALFORMED, Port};

const MAX_STREAMS: u32 = 100;
/// The longest list of headers, in bytes.
const MAX_HEADERS: u32 = 64 << 10;
/// A connection that has had no request for this long may be ended for another one.
const IDLE: Duration = Duration::from_secs(1);
/// Time for the last bytes of a connection that is ended.
const CLOSING: Duration = Duration::from_millis(100);

/// Answers the requests of a connection, which keeps its place until its end.
pub(super) async fn serve(stream: TcpStream, from: SocketAddr, port: Port, _place: impl Send) {
    let _ = stream.set_nodelay(true);
    // Otherwise the system sends for a quarter of an hour to a client that is gone without a word, and waits for ever.
    let limit = port.bounds.client_timeout;
    let _ = sockopt::set_socket_keepalive(&stream, true);
    let _ = sockopt::set_tcp_keepidle(&stream, limit).and_then(|()| sockopt::set_tcp_keepintvl(&stream, limit));
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = sockopt::set_tcp_user_timeout(&stream, u32::try_from(limit.as_millis()).unwrap_or_default());
    let Some(tls) = port.tls.clone() else { return answer_all(stream, from, port).await };
    tokio::select! {
        accepted = tls.now().accept(stream) => match accepted {
            Ok(stream) => answer_all(stream, from, port).await,
            Err(error) => tracing::debug!(%error, "no TLS"),
        },
        // As for a connection without a request.
        _ = timeout(port.bounds.header_timeout, needed(&port.full)) => {}
        () = port.stop.cancelled() => {}
    }
}

/// The client of a connection, which may answer pings in HTTP/2 and read no answer.
#[derive(Default)]
struct Client {
    /// The requests that are not read and answered as a whole yet.
    requests: TaskTracker,
    /// Notified when a request comes.
    arrived: Notify,
    /// When the client last took a frame of any answer, or was sent one after it had taken all earlier ones.
    taken: Mutex<Option<Instant>>,
    /// The answers with a frame that the client has not taken.
    unread: TaskTracker,
}

impl Client {
    /// Waits until the client has had no request for the time of a pause.
    async fn unused<P: Future>(&self, pause: impl Fn() -> P) {
        loop {
            self.requests.wait().await;
            tokio::select! {
                () = self.arrived.notified() => {}
                _ = pause() => return,
            }
        }
    }

    /// Waits until the client has taken no frame for `limit`, although one is unread.
    async fn stuck(&self, limit: Duration) {
        loop {
            sleep(limit / 8).await;
            if !self.unread.is_empty() && self.left(limit).is_zero() {
                return;
            }
        }
    }

    /// Returns how long the client may still take for the next frame: zero if no answer was sent.
    fn left(&self, limit: Duration) -> Duration {
        self.taken.lock().map_or(Duration::ZERO, |taken| limit.saturating_sub(taken.elapsed()))
    }
}

/// The body of an answer. hyper asks for the first frame at once, and for each later one when part of the last is read.
struct AnswerBody {
    body: Body,
    client: Arc<Client>,
    unread: Option<TaskTrackerToken>,
    _request: TaskTrackerToken,
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if self.unread.is_some() || self.client.unread.is_empty() {
            *self.client.taken.lock() = Some(Instant::now());
        }
        self.unread = frame.is_ready().then(|| self.client.unread.token());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn answer_all(stream: impl AsyncRead + AsyncWrite + Send + 'static, from: SocketAddr, port: Port) {
    let Port { bounds, answers, stop, full, .. } = port;
    // Ends a connection whose client does not read its answer.
    let mut stream = TimeoutWriter::new(stream);
    stream.set_timeout(Some(bounds.client_timeout));
    let client = Arc::new(Client::default());
    client.requests.close();
    let (limit, of_service) = (bounds.client_timeout, Arc::clone(&client));
    let service = service_fn(move |request| {
        let client = Arc::clone(&of_service);
        let tokens = (client.requests.token(), client.requests.token());
        client.arrived.notify_one();
        answer(request, from, answers.clone(), client, tokens)
    });
    let builder = bounded_server(&bounds);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(Box::pin(stream)), service));
    let served = async {
        let closing = tokio::select! {
            ended = connection.as_mut() => return ended,
            () = stop.cancelled() => limit,
            // hyper has a timer for the head of a request only. A buffer may still have the end of an answer.
            () = client.unused(|| timeout(bounds.header_timeout, needed(&full))) => {
                client.left(limit).max(CLOSING)
            }
        };
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            ended = connection => ended,
            // A request may have come just now.
            () = client.unused(|| sleep(closing)) => Ok(()),
        }
    };
    let ended = tokio::select! {
        ended = served => ended,
        () = client.stuck(limit) => return,
    };
    let Err(error) = ended else { return };
    match error.downcast_ref().is_some_and(hyper::Error::is_parse) {
        true => note_malformed(&error.to_string()),
        false => tracing::debug!(%error, "connection ended"),
    }
}

/// Answers a request. The tokens count it until its body and its answer are dropped.
async fn answer(
    request: Request<Incoming>,
    from: SocketAddr,
    mut answers: Answers,
    client: Arc<Client>,
    (upload, _request): (TaskTrackerToken, TaskTrackerToken),
) -> Result<Response<AnswerBody>, Infallible> {
    let answer = if let Some(why) = ambiguous(&request) {
        note_malformed(why);
        MALFORMED.because(why).into_response()
    } else {
        let counted = move |error| {
            let _ = &upload;
            error
        };
        let mut request = request.map(|body| Body::new(body.map_err(counted)));
        request.extensions_mut().insert(from);
        answers.call(request).await?
    };
    Ok(answer.map(|body| AnswerBody { body, client, unread: None, _request }))
}

/// Bounds what a client may send, and for how long.
fn bounded_server(bounds: &Bounds) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    let mut http1 = builder.http1();
    http1.timer(TokioTimer::new()).header_read_timeout(bounds.header_timeout);
    http1.max_buf_size(MAX_HEADERS as usize);
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS);
    http2.keep_alive_interval(bounds.client_timeout).max_header_list_size(MAX_HEADERS);
    http2.keep_alive_timeout(bounds.client_timeout);
    builder
}

fn note_malformed(why: &str) {
    tracing::warn!(why, "request refused: it is malformed");
    metrics::counter!("fencing_requests_malformed_total").increment(1);
}

/// Waits until another connection needs the place of one that has had no request for a while.
async fn needed(full: &Notify) {
    sleep(IDLE).await;
    full.notified().await;
}

/// Says why another reader could see another request in the same bytes. hyper has one reading of each request (RFC
/// 9112, 6.3), and what is sent on is written again; this refuses what would be passed on as it came.
fn ambiguous<B>(request: &Request<B>) -> Option<&'static str> {
    let (version, headers) = (request.version(), request.headers());
    let codings: Vec<_> = headers.get_all(TRANSFER_ENCODING).iter().map(HeaderValue::as_bytes).collect();
    match (headers.get_all(HOST).iter().count(), &codings[..]) {
        _ if version > Version::HTTP_11 => None,
        (0, _) if version == Version::HTTP_11 => Some("the request has no Host"),
        (2.., _) => Some("the request has a Host twice"),
        (_, []) => None,
        (_, [one]) if one.eq_ignore_ascii_case(b"chunked") => None,
        _ => Some("the Transfer-Encoding is not chunked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_one_of_two_answers_is_not_cut_off() {
        let limit = Duration::from_secs(30);
        let client = Client { taken: Mutex::new(Some(Instant::now())), ..Client::default() };
        assert!(timeout(limit * 10, client.stuck(limit)).await.is_err(), "nothing is unread");
        let _unread = client.unread.token();
        let mut stuck = pin!(client.stuck(limit));
        for _ in 0..10 {
            *client.taken.lock() = Some(Instant::now());
            assert!(timeout(limit / 3 * 2, stuck.as_mut()).await.is_err());
        }
        timeout(limit, stuck).await.unwrap();
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        let is_refused = |version, headers: &[(&str, &str)]| {
            let mut request = Request::builder().version(version);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            ambiguous(&request.body(()).unwrap()).is_some()
        };
        let host = ("host", "a");
        let new = |headers: &[(&str, &str)]| is_refused(Version::HTTP_11, headers);
        assert!(!new(&[host]) && !new(&[host, ("transfer-encoding", "Chunked")]));
        assert!(new(&[]) && new(&[host, host]));
        for coding in ["gzip, chunked", "chunked, chunked", "identity", ""] {
            assert!(new(&[host, ("transfer-encoding", coding)]), "{coding}");
        }
        assert!(new(&[host, ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")]));
        assert!(!is_refused(Version::HTTP_10, &[]) && is_refused(Version::HTTP_10, &[host, host]));
        assert!(!is_refused(Version::HTTP_2, &[]));
    }
}
