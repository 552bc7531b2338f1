use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::AsyncStream;
use ::redis::io::tcp::TcpSettings;
use ::redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use ::redis::{AsyncConnectionConfig, Client, ConnectionAddr};
use futures_util::future::{FutureExt, select_ok};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::load_native_certs;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::spawn_blocking;
use tokio_rustls::TlsConnector;

/// After how much silence the other end of a connection is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(10);

pub(super) type ServerStream = Pin<Box<dyn AsyncStream + Send>>;

/// Connects to the server of a client. The caller bounds the time.
pub(super) async fn connect(client: &Client) -> io::Result<ServerStream> {
    Ok(match client.get_connection_info().addr() {
        ConnectionAddr::Tcp(host, port) => Box::pin(tcp(host, *port).await?),
        ConnectionAddr::TcpTls { host, port, .. } => {
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            let stream = tcp(host, *port).await?;
            // It reads many files: the requests to other nodes do not wait for it.
            let tls = spawn_blocking(tls).await??;
            Box::pin(TlsConnector::from(Arc::new(tls)).connect(name, stream).await?)
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => Box::pin(tokio::net::UnixStream::connect(path).await?),
        _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "unsupported address")),
    })
}

/// Trusts the certificates of the system, or those that `SSL_CERT_FILE` names.
fn tls() -> io::Result<ClientConfig> {
    let mut found = load_native_certs();
    if let Some(error) = found.errors.pop() {
        return Err(io::Error::other(error));
    }
    let mut roots = RootCertStore::empty();
    for certificate in found.certs {
        roots.add(certificate).map_err(io::Error::other)?;
    }
    Ok(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}

/// Connects to the first address that answers.
async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the host name has no address"));
    }
    let streams = addresses.into_iter().map(|address| TcpStream::connect(address).boxed());
    let (stream, _) = select_ok(streams).await?;
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_tcp_keepalive(&keepalive())?;
    Ok(stream)
}

/// Returns the settings of the `redis` crate's TCP connections. Requests do not wait for an earlier acknowledgement.
pub(super) fn settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true).set_keepalive(keepalive())
}

/// Makes the system notice while a connection is idle that its other end has vanished.
fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 4)
}

/// The caller bounds the time.
pub(super) fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None)
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
