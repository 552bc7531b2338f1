//! A network between the clients and one node.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use crate::faults::Fault;

#[derive(Clone)]
pub enum Place {
    Socket(PathBuf),
    Address(String),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Place {
    async fn connect(&self) -> std::io::Result<Box<dyn Stream>> {
        Ok(match self {
            Place::Socket(path) => Box::new(UnixStream::connect(path).await?),
            Place::Address(address) => Box::new(TcpStream::connect(address).await?),
        })
    }
}

/// What the network does at the moment, and how late it is if that is a delay.
#[derive(Default)]
pub struct Weather {
    now: Mutex<Option<(Fault, Duration)>>,
    /// A connection that has lost bytes brings no more: those who speak HTTP/2 rely on that.
    lasts: bool,
}

impl Weather {
    pub fn set(&self, fault: Option<(Fault, Duration)>) {
        *self.now.lock() = fault;
    }

    fn is(&self, fault: Fault) -> Option<Duration> {
        self.now.lock().filter(|(now, _)| *now == fault).map(|(_, delay)| delay)
    }
}

/// Listens for clients of the node. Returns the port, and what switches the weather.
pub async fn proxy(place: Place, lasts: bool) -> std::io::Result<(u16, Arc<Weather>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let weather = Arc::new(Weather { lasts, ..Weather::default() });
    let port = listener.local_addr()?.port();
    let shared = Arc::clone(&weather);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (place, weather) = (place.clone(), Arc::clone(&shared));
            tokio::spawn(async move {
                let _ = client.set_nodelay(true);
                if let Ok(server) = place.connect().await {
                    between(client, server, place, weather).await;
                }
            });
        }
    });
    Ok((port, weather))
}

/// Ends both ways when one does.
async fn between(client: TcpStream, server: Box<dyn Stream>, place: Place, weather: Arc<Weather>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = tokio::io::split(server);
    let requests = |bytes: &[u8]| {
        if weather.is(Fault::Repeat).is_some() {
            tokio::spawn(again(place.clone(), bytes.to_vec()));
        }
        weather.is(Fault::Cut).is_some()
    };
    tokio::select! {
        () = way(from_client, to_server, &weather, Fault::LoseRequests, requests) => {}
        () = way(from_server, to_client, &weather, Fault::LoseReplies, |_| false) => {}
    }
}

/// Brings bytes over until one end is gone, or until it is cut after some of them.
async fn way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    weather: &Weather,
    loss: Fault,
    is_cut: impl Fn(&[u8]) -> bool,
) {
    let (mut bytes, mut lost) = (vec![0; 1 << 16], false);
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if let Some(delay) = weather.is(Fault::Delay) {
            tokio::time::sleep(delay).await;
        }
        lost = weather.is(loss).is_some() || lost && weather.lasts;
        if lost {
            continue;
        }
        if to.write_all(&bytes[..count]).await.is_err() || is_cut(&bytes[..count]) {
            return;
        }
    }
}

/// Sends a request once more, later, over another connection.
async fn again(place: Place, request: Vec<u8>) {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(0..1500))).await;
    let repeat = async {
        let mut server = place.connect().await?;
        server.write_all(&request).await?;
        server.read(&mut [0; 4096]).await
    };
    let _ = tokio::time::timeout(Duration::from_secs(5), repeat).await;
}
