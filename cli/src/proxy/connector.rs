use std::io::Result;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::util::MapResponse;

/// Connects to the service.
pub(super) type Connector = MapResponse<HttpConnector, fn(TokioIo<TcpStream>) -> Stream>;

/// A connection to the service. The proxy ends it after the answer, by a reset: the end in order would leave
/// its port in TIME-WAIT, and a connection for each request would soon take all ports.
///
/// A reset throws away what the service has not received. So there is none where the answer began before the
/// request was written: the service may still read it.
pub(super) struct Stream {
    inner: TokioIo<TcpStream>,
    /// Something has come from the service.
    answered: bool,
    /// Something was written after that.
    wrote_after: bool,
}

impl Stream {
    pub(super) fn new(inner: TokioIo<TcpStream>) -> Stream {
        Stream { inner, answered: false, wrote_after: false }
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<Result<()>> {
        let read = ready!(Pin::new(&mut self.inner).poll_read(context, buffer));
        self.answered = true;
        Poll::Ready(read)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
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

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}
