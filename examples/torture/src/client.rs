//! One client process: leases, and writes under their tokens.

use std::error::Error;
use std::io::{BufRead, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fencing::http::{Problem, attach};
use fencing::lock::{AcquireError, ConnectError, ConnectOptions, Lock};
use fencing::time::{Clock, SystemClock, Time};
use fencing::{Lease, Redlock, Resource, Sequencer};
use reqwest::{Request, StatusCode};
use serde::{Deserialize, Serialize};

use support::history::{Answer, At, Attempt, Event, Outcome, Write};

/// What a client is told when it starts.
#[derive(Clone, Serialize, Deserialize)]
pub struct Orders {
    pub number: u32,
    pub seed: u64,
    /// The file with the list of nodes, which may change.
    pub nodes: PathBuf,
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
    lock: Arc<dyn Lock>,
    http: reqwest::Client,
    rng: fastrand::Rng,
    writes: u64,
}

/// Works until its input ends.
pub async fn run(orders: &str) -> Result<(), Box<dyn Error>> {
    let orders: Orders = serde_json::from_str(orders)?;
    let rng = fastrand::Rng::with_seed(orders.seed);
    let nodes = std::fs::read_to_string(&orders.nodes)?;
    let lock = service(&orders, &nodes).await?;
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(2)).build()?;
    let input = std::thread::spawn(|| std::io::stdin().lock().lines().for_each(drop));
    let mut client = Client { orders, nodes, refused: false, lock, http, rng, writes: 0 };
    while !input.is_finished() {
        client.round().await?;
    }
    Ok(())
}

async fn service(orders: &Orders, nodes: &str) -> Result<Arc<dyn Lock>, Box<dyn Error>> {
    // One of three keeps its leases alive: while it is stopped, that ends too.
    let renew = orders.number.is_multiple_of(3);
    if !nodes.contains("redis://") {
        let options = ConnectOptions::new(nodes).ttl(orders.ttl).wait(orders.ttl * 10).renew(renew);
        return match options.connect().await {
            Err(ConnectError::NotReady { lock, .. }) => Ok(lock),
            connected => Ok(connected?),
        };
    }
    let redlock = Redlock::builder()
        .redis(nodes.lines())
        .first_start(true)
        .ttl(orders.ttl)
        .wait(orders.ttl * 10)
        .retry_delay(Duration::from_millis(30))
        // The machine is busy with all the other processes.
        .node_budget(Duration::from_millis(100))
        .renew(renew)
        .build()?;
    Ok(Arc::new(redlock))
}

impl Client {
    /// A client is deployed with the new list some time after the others, and at once when it is
    /// refused: an attempt with an older list waits for long.
    async fn deploy(&mut self) -> Result<(), Box<dyn Error>> {
        let nodes = std::fs::read_to_string(&self.orders.nodes)?;
        if nodes != self.nodes && (self.refused || self.rng.u8(0..3) == 0) {
            (self.lock, self.nodes) = (service(&self.orders, &nodes).await?, nodes);
        }
        Ok(())
    }

    async fn round(&mut self) -> Result<(), Box<dyn Error>> {
        self.deploy().await?;
        let wish = self.rng.u8(0..10);
        // In any order: a client that asks for all of them has no other to keep to.
        self.rng.shuffle(&mut self.orders.files);
        let names = self.orders.files.iter().map(|(file, _)| Resource::new(file.as_str()));
        let resources: Vec<Resource> = names.collect::<Result<_, _>>()?;
        let (lock, first, asked) = (Arc::clone(&self.lock), &resources[0], now());
        let one = |lease: &Lease| vec![lease.sequencer()];
        match wish {
            0..5 => self.turn(asked, lock.acquire(first).await, one, Outcome::Granted).await,
            5..8 => {
                let part = lock.acquire_shared(first).await;
                self.turn(asked, part, |lease| vec![lease.sequencer()], Outcome::Shared).await
            }
            8 => {
                let all = lock.acquire_all(&resources).await;
                self.turn(asked, all, |lease| lease.sequencers().to_vec(), Outcome::Granted).await
            }
            _ => self.turn(asked, lock.acquire_any(&resources).await, one, Outcome::Granted).await,
        }
    }

    /// Tells what an attempt came to, and writes under the lease.
    async fn turn<K>(
        &mut self,
        asked: At,
        attempt: Result<Lease<K>, AcquireError>,
        sequencers: impl Fn(&Lease<K>) -> Vec<Sequencer>,
        granted: fn(u64) -> Outcome,
    ) -> Result<(), Box<dyn Error>> {
        let (client, answered) = (self.orders.number, now());
        let tell = |resource: &str, outcome| {
            let resource = resource.to_owned();
            // Whoever reads this may stop us now.
            say(&Event::Attempt(Attempt { client, resource, asked, answered, outcome }));
        };
        self.refused = false;
        let lease = match attempt {
            Ok(lease) => lease,
            Err(error) => {
                self.refused = !matches!(error, AcquireError::Held { .. });
                if self.refused {
                    tracing::info!(client, %error);
                }
                let outcome = if self.refused { Outcome::NoQuorum } else { Outcome::Held };
                tell(&self.orders.files[0].0, outcome);
                self.pause(50).await;
                return Ok(());
            }
        };
        let sequencers = sequencers(&lease);
        for Sequencer { resource, token } in &sequencers {
            tell(resource.as_str(), granted(token.get()));
        }
        let careful = self.rng.bool();
        for _ in 0..self.rng.u8(1..5) {
            for sequencer in &sequencers {
                if careful && lease.valid_for().is_zero() {
                    break;
                }
                self.pause(25).await;
                self.write(sequencer).await?;
            }
        }
        match self.rng.u8(0..3) {
            0 => drop(lease),
            _ => drop(lease.release().await),
        }
        self.pause(20).await;
        Ok(())
    }

    async fn pause(&mut self, most: u64) {
        tokio::time::sleep(Duration::from_millis(self.rng.u64(0..=most))).await;
    }

    async fn write(&mut self, lease: &Sequencer) -> Result<(), Box<dyn Error>> {
        let (client, resource) = (self.orders.number, lease.resource.as_str().to_owned());
        self.writes += 1;
        let value = format!("{client}-{}", self.writes);
        let mut files = self.orders.files.iter();
        let storage = files.find(|(file, _)| *file == resource);
        let (_, storage) = storage.ok_or("a lease of something else")?;
        let uri = format!("http://{storage}/{resource}");
        let mut request = self.http.put(uri).body(value.clone()).build()?;
        attach(request.headers_mut(), lease.token);
        let sent = now();
        let answer = self.send(request).await.unwrap_or(Answer::InDoubt);
        let (token, answered) = (lease.token.get(), now());
        say(&Event::Write(Write { client, resource, token, value, sent, answered, answer }));
        Ok(())
    }

    async fn send(&self, request: Request) -> Option<Answer> {
        let answer = self.http.execute(request).await.ok()?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        if status == StatusCode::NO_CONTENT {
            return Some(Answer::Accepted);
        }
        let problem = Problem::read(&headers, &answer.bytes().await.ok()?).ok()?;
        if let Some(stale) = problem.stale() {
            return Some(Answer::Refused(stale.highest.get()));
        }
        status.is_client_error().then_some(Answer::Failed)
    }
}

/// One line, as one write.
fn say(event: &Event) {
    let mut line = serde_json::to_string(event).unwrap_or_default();
    line.push('\n');
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}
