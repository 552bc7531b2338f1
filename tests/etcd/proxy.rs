//! What lies between a client and a member: it may hold requests back.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};

#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    Pass,
    /// From the first request with this on, all of its connection are held.
    HoldFrom(&'static str),
    HoldOne,
    Hold,
    /// What comes now is lost, such as that the client waits no more.
    Lose,
}

/// What was to be sent, and where.
type Held = (Arc<tokio::sync::Mutex<OwnedWriteHalf>>, Vec<u8>);

pub struct Proxy {
    pub host: String,
    state: Arc<Mutex<(Mode, Vec<Held>)>>,
}

impl Proxy {
    pub async fn before(member: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new((Mode::Pass, Vec::new())));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&member).await else { continue };
                let (mut requests, mut to_client) = client.into_split();
                let (mut answers, to_server) = server.into_split();
                let (to_server, state) = (Arc::new(tokio::sync::Mutex::new(to_server)), Arc::clone(&shared));
                tokio::spawn(async move { copy(&mut answers, &mut to_client).await });
                tokio::spawn(async move {
                    let (mut buffer, mut is_held) = (vec![0; 1 << 16], false);
                    while let Ok(count @ 1..) = requests.read(&mut buffer).await {
                        let bytes = buffer[..count].to_vec();
                        let passes = {
                            let (mode, held) = &mut *state.lock().unwrap();
                            if let Mode::HoldFrom(text) = *mode
                                && bytes.windows(text.len()).any(|part| part == text.as_bytes())
                            {
                                (*mode, is_held) = (Mode::HoldOne, true);
                            }
                            let holds = *mode == Mode::Hold || *mode == Mode::HoldOne && is_held;
                            if holds {
                                held.push((Arc::clone(&to_server), bytes.clone()));
                            }
                            !holds && *mode != Mode::Lose
                        };
                        if passes && to_server.lock().await.write_all(&bytes).await.is_err() {
                            return;
                        }
                    }
                    // The server never learns that the client has gone.
                    std::future::pending::<()>().await;
                });
            }
        });
        Proxy { host, state }
    }

    pub fn set(&self, mode: Mode) {
        self.state.lock().unwrap().0 = mode;
    }

    /// Reports whether what is held names all of these.
    pub fn holds(&self, texts: &[&str]) -> bool {
        let held: Vec<u8> = self.state.lock().unwrap().1.iter().flat_map(|(_, bytes)| bytes).copied().collect();
        texts.iter().all(|text| held.windows(text.len()).any(|found| found == text.as_bytes()))
    }

    pub async fn deliver(&self) {
        let held = std::mem::take(&mut self.state.lock().unwrap().1);
        assert!(!held.is_empty(), "nothing was held");
        for (to_server, bytes) in held {
            to_server.lock().await.write_all(&bytes).await.unwrap();
        }
    }
}
