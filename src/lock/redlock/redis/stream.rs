use std::io;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, ConnectionAddr};
use futures_util::future::{BoxFuture, FutureExt, select_ok};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

use super::fault::unreachable;
use crate::protocol::Fault;

/// A connection, and what moves its bytes as long as it is polled.
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
    // A request must not wait for the acknowledgement of the one before.
    stream.set_nodelay(true)?;
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

/// The lane bounds the time, and the number of requests.
pub(super) fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None)
}
