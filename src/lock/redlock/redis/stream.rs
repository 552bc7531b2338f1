use std::io;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::io::tcp::TcpSettings;
use ::redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use ::redis::{AsyncConnectionConfig, Client, ConnectionAddr};
use fencing_protocol::Fault;
use futures_util::future::{BoxFuture, FutureExt, select_ok};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

use super::fault::unreachable;

/// After how much silence the other end of a connection is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// A connection, and the future that moves its bytes while it is polled.
type Driven = (MultiplexedConnection, BoxFuture<'static, ()>);

/// Connects without a task for the connection. Returns `None` where only the driver itself knows how:
/// over TLS. The caller bounds the time.
pub(super) async fn connect(client: &Client) -> Result<Option<Driven>, Fault> {
    let info = client.get_connection_info();
    let refused = |error: io::Error| unreachable(&error.into());
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            let stream = tcp(host, *port).await.map_err(refused)?;
            driven(client, stream).await.map(Some)
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let stream = tokio::net::UnixStream::connect(path).await.map_err(refused)?;
            driven(client, stream).await.map(Some)
        }
        _ => Ok(None),
    }
}

/// Connects to the first address that answers.
async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    let streams = addresses.into_iter().map(|address| TcpStream::connect(address).boxed());
    let (stream, _) = select_ok(streams).await?;
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_keepalive(&keepalive())?;
    Ok(stream)
}

async fn driven(
    client: &Client,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Driven, Fault> {
    let settings = client.get_connection_info().redis_settings();
    let opened = MultiplexedConnection::new_with_config(settings, stream, config()).await;
    let (connection, motion) = opened.map_err(|error| unreachable(&error))?;
    Ok((connection, motion.boxed()))
}

/// Returns the settings of a TCP connection, for the driver where it opens one itself. A request does not wait
/// for the acknowledgement of the one before.
pub(super) fn settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true).set_keepalive(keepalive())
}

/// The most calls of a session without an answer. It keeps the order of this many.
const MAX_CALLS: usize = 4096;

/// Makes the system notice while a connection is idle that its other end has vanished.
fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 4)
}

/// The lane bounds the time, and the number of requests. There is room for all of them: where a
/// request has to wait for room, one that comes later may overtake it.
pub(super) fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(MAX_CALLS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_waits_for_nobody_and_asks_after_silence() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = tcp("localhost", listener.local_addr().unwrap().port()).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(stream.nodelay().unwrap());
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEPALIVE);
    }
}
