//! What lies between a client and a server: it may hold back writes of several operations, or what follows them.

use tokio::io::{self, AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::*;

/// The operation of such a write.
const MULTI: [u8; 4] = 14_u32.to_be_bytes();

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Gate {
    Open,
    Closed,
    /// A write passes, and what comes behind it waits.
    Behind,
    /// A write waits, and what comes behind it, or only that.
    Waiting,
}

pub struct Proxy {
    pub url: String,
    pub gate: watch::Sender<Gate>,
}

impl Proxy {
    pub async fn before(server: &ZookeeperServer) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("zookeeper://{}", listener.local_addr().unwrap());
        let (gate, to) = (watch::Sender::new(Gate::Open), server.address());
        let gates = gate.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&to).await else { continue };
                let ((requests, mut to_client), (mut answers, to_server)) = (client.into_split(), server.into_split());
                tokio::spawn(async move { copy(&mut answers, &mut to_client).await });
                tokio::spawn(forward(requests, to_server, gates.clone()));
            }
        });
        Proxy { url, gate }
    }

    pub async fn waits(&self) {
        until("a write", async || (*self.gate.borrow() == Gate::Waiting).then_some(())).await;
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, gate: watch::Sender<Gate>) -> io::Result<()> {
    loop {
        let length = from.read_u32().await?;
        let mut request = vec![0; length as usize];
        from.read_exact(&mut request).await?;
        let is_write = request.get(4..8) == Some(&MULTI);
        let passes = matches!(*gate.borrow(), Gate::Open | Gate::Behind);
        if is_write && !passes {
            wait(&gate).await;
        }
        to.write_u32(length).await?;
        to.write_all(&request).await?;
        if is_write && passes && *gate.borrow() == Gate::Behind {
            wait(&gate).await;
        }
    }
}

async fn wait(gate: &watch::Sender<Gate>) {
    gate.send_replace(Gate::Waiting);
    let _ = gate.subscribe().wait_for(|gate| *gate == Gate::Open).await;
}
