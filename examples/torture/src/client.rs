//! One client process: leases, and writes under their tokens.

use std::error::Error;
use std::io::{BufRead, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Method, Request, StatusCode};
use fencing::http::{Problem, attach};
use fencing::lock::{AcquireError, BuildError};
use fencing::time::{Clock, SystemClock, Time};
use fencing::{Redlock, Resource, Sequencer, Token};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client as Http, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::{Deserialize, Serialize};

use crate::held::{Held, Wish};
use support::history::{Answer, At, Attempt, Event, Outcome, Write};

/// What a client is told when it starts.
#[derive(Clone, Serialize, Deserialize)]
pub struct Orders {
    pub number: u32,
    pub seed: u64,
    /// The file with the list of nodes, which may change.
    pub nodes: PathBuf,
    pub namespace: String,
    pub ttl: Duration,
    /// What to lock, and where it is stored.
    pub files: Vec<(String, String)>,
}

/// Nanoseconds since the machine was started, the same for every process on it.
pub fn now() -> At {
    SystemClock.now().since(Time::default()).as_nanos() as u64
}

struct Client {
    orders: Orders,
    /// What the list was when the lock service was made of it.
    nodes: String,
    /// The last attempt found no quorum.
    refused: bool,
    redlock: Redlock,
    http: Http<HttpConnector, Full<Bytes>>,
    rng: fastrand::Rng,
    writes: &'static AtomicU64,
}

/// Works until its input ends.
pub async fn run(orders: &str) -> Result<(), Box<dyn Error>> {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let orders: Orders = serde_json::from_str(orders)?;
    let rng = fastrand::Rng::with_seed(orders.seed);
    let nodes = std::fs::read_to_string(&orders.nodes)?;
    let redlock = service(&orders, &nodes)?;
    let http = Http::builder(TokioExecutor::new()).build_http();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    std::thread::spawn(move || {
        std::io::stdin().lock().lines().for_each(drop);
        stopped.store(true, Ordering::SeqCst);
    });
    let mut client = Client { orders, nodes, refused: false, redlock, http, rng, writes: &WRITES };
    while !stop.load(Ordering::SeqCst) {
        client.round().await?;
    }
    Ok(())
}

fn service(orders: &Orders, nodes: &str) -> Result<Redlock, BuildError> {
    Redlock::builder()
        .redis(nodes.lines())
        .first_start(true)
        .namespace(&orders.namespace)
        .ttl(orders.ttl)
        .wait(orders.ttl * 10)
        .retry_delay(Duration::from_millis(30))
        // The machine is busy with all the other processes.
        .node_budget(Duration::from_millis(100))
        // One of three keeps its leases alive: while it is stopped, that ends too.
        .renew(orders.number.is_multiple_of(3))
        .build()
}

impl Client {
    /// A client is deployed with the new list some time after the others, and at once when it is
    /// refused: an attempt with an older list waits for long.
    fn deploy(&mut self) -> Result<(), Box<dyn Error>> {
        let nodes = std::fs::read_to_string(&self.orders.nodes)?;
        if nodes != self.nodes && (self.refused || self.rng.u8(0..3) == 0) {
            (self.redlock, self.nodes) = (service(&self.orders, &nodes)?, nodes);
        }
        Ok(())
    }

    async fn round(&mut self) -> Result<(), Box<dyn Error>> {
        self.deploy()?;
        let wish = Wish::drawn(&mut self.rng);
        let mut files = self.orders.files.clone();
        // In any order: a client that asks for all of them has no other to keep to.
        self.rng.shuffle(&mut files);
        let names = files.iter().map(|(file, _)| Resource::new(file.as_str()));
        let resources: Vec<Resource> = names.collect::<Result<_, _>>()?;
        let asked = now();
        let attempt = Held::acquire(&self.redlock, wish, &resources).await;
        let told = now();
        let outcomes: Vec<(&str, Outcome)> = match &attempt {
            Err(error) => {
                let outcome = match error {
                    AcquireError::Held { .. } => Outcome::Held,
                    _ => Outcome::NoQuorum,
                };
                if outcome == Outcome::NoQuorum {
                    tracing::info!(client = self.orders.number, %error);
                }
                vec![(resources[0].as_str(), outcome)]
            }
            Ok(held) => {
                let granted = held.sequencers().into_iter();
                let granted = granted.map(|pair| (named(&resources, &pair), held.outcome(&pair)));
                granted.collect()
            }
        };
        self.refused = outcomes.iter().any(|(_, outcome)| *outcome == Outcome::NoQuorum);
        for (resource, outcome) in outcomes {
            let (client, resource) = (self.orders.number, resource.to_owned());
            // Whoever reads this may stop us now.
            say(&Event::Attempt(Attempt { client, resource, asked, told, outcome }));
        }
        let Ok(held) = attempt else {
            self.pause(50).await;
            return Ok(());
        };
        self.hold(&held, &files).await?;
        match self.rng.u8(0..3) {
            0 => drop(held),
            _ => held.release().await,
        }
        self.pause(20).await;
        Ok(())
    }

    async fn hold(
        &mut self,
        held: &Held,
        files: &[(String, String)],
    ) -> Result<(), Box<dyn Error>> {
        let careful = self.rng.bool();
        for _ in 0..self.rng.u8(1..5) {
            for Sequencer { resource, token } in held.sequencers() {
                if careful && held.valid_for().is_zero() {
                    return Ok(());
                }
                self.pause(25).await;
                let storage = files.iter().find(|(file, _)| file == resource.as_str());
                let (_, storage) = storage.ok_or("a lease of something else")?;
                self.write(&resource, token, storage).await?;
            }
        }
        Ok(())
    }

    async fn pause(&mut self, most: u64) {
        tokio::time::sleep(Duration::from_millis(self.rng.u64(0..=most))).await;
    }

    async fn write(
        &self,
        resource: &Resource,
        token: Token,
        storage: &str,
    ) -> Result<(), Box<dyn Error>> {
        let number = self.writes.fetch_add(1, Ordering::SeqCst);
        let value = format!("{}-{number}", self.orders.number);
        let uri = format!("http://{storage}/{resource}");
        let body = Full::from(value.clone());
        let mut request = Request::builder().method(Method::PUT).uri(uri).body(body)?;
        attach(request.headers_mut(), token);
        let sent = now();
        let answer = tokio::time::timeout(Duration::from_secs(2), self.send(request)).await;
        let answer = answer.ok().flatten().unwrap_or(Answer::InDoubt);
        let (client, resource) = (self.orders.number, resource.as_str().to_owned());
        let (token, told) = (token.get(), now());
        say(&Event::Write(Write { client, resource, token, value, sent, told, answer }));
        Ok(())
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Option<Answer> {
        let (parts, body) = self.http.request(request).await.ok()?.into_parts();
        if parts.status == StatusCode::NO_CONTENT {
            return Some(Answer::Accepted);
        }
        let body = body.collect().await.ok()?.to_bytes();
        let problem = Problem::read(&parts.headers, &body).ok()?;
        if let Some(stale) = problem.stale() {
            return Some(Answer::Refused(stale.highest.get()));
        }
        parts.status.is_client_error().then_some(Answer::Failed)
    }
}

/// The name of what a token was granted for, as this client asked for it.
fn named<'a>(resources: &'a [Resource], pair: &Sequencer) -> &'a str {
    resources.iter().find(|own| **own == pair.resource).map_or("something else", Resource::as_str)
}

/// One line, as one write.
fn say(event: &Event) {
    let mut line = serde_json::to_string(event).unwrap_or_default();
    line.push('\n');
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}
