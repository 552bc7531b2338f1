use std::io::Result;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use http::Request;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tower::util::MapResponse;

/// Time limit for a connection to the service. A request without one was not sent.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which an unused connection to the service is kept, for requests that the fence has not admitted.
const UNUSED_TIMEOUT: Duration = Duration::from_secs(15);

pub(super) struct Upstream {
    client: Client<Connector, Body>,
    /// For requests that the fence has admitted: it uses no connection twice. Where the service closes
    /// an unused connection just now, a request on it would be in doubt, and keep its resource closed.
    fresh: Client<Connector, Body>,
}

impl Upstream {
    pub(super) fn new(http2: bool) -> Upstream {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        let connector = Connector::new(connector, |inner| ResetStream { inner, answered: false, wrote_after: false });
        let mut builder = Client::builder(TokioExecutor::new());
        // Each piece of an answer has to reach the client within its time limit.
        builder.http2_only(http2).set_host(false).http1_max_buf_size(64 << 10);
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(UNUSED_TIMEOUT);
        let client = builder.build(connector.clone());
        // In HTTP/2 all requests share one, which does not end between them.
        let unused = if http2 { usize::MAX } else { 0 };
        let fresh = builder.pool_max_idle_per_host(unused).build(connector);
        Upstream { client, fresh }
    }

    pub(super) fn send(&self, request: Request<Body>, is_fenced: bool) -> ResponseFuture {
        let client = if is_fenced { &self.fresh } else { &self.client };
        client.request(request)
    }
}

type Connector = MapResponse<HttpConnector, fn(TokioIo<TcpStream>) -> ResetStream>;

/// A connection to the service, which the proxy resets after the answer: an orderly end would leave its port in
/// TIME-WAIT, and a connection for each request would soon take all ports. A reset throws away what the service has not
/// received: there is none if the answer began before the request was written, as the service may still read it.
struct ResetStream {
    inner: TokioIo<TcpStream>,
    answered: bool,
    wrote_after: bool,
}

impl Read for ResetStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<Result<()>> {
        let read = ready!(Pin::new(&mut self.inner).poll_read(context, buffer));
        self.answered = true;
        Poll::Ready(read)
    }
}

impl Write for ResetStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.wrote_after |= self.answered;
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    /// hyper ends the connection. The reset goes out when the stream is dropped. An end of the stream
    /// before it would be a race: if the service closes between the two, TIME-WAIT begins.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.wrote_after {
            return Pin::new(&mut self.inner).poll_shutdown(context);
        }
        Poll::Ready(self.inner.inner().set_zero_linger())
    }
}

impl Connection for ResetStream {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}
