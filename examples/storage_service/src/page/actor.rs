use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, Thread};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use fencing::http::Problem;
use fencing::lock::{AcquireError, Lease, Lock, Loss};
use fencing::resource::Resource;
use futures_util::future::{BoxFuture, FutureExt, OptionFuture};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::board::Board;
use crate::caller::Caller;
use crate::locks::Nodes;

/// The file with the fence and the one without: each write goes to both.
pub const FILES: [&str; 2] = ["/files/page", "/unfenced/page"];
/// How often a client looks at its lease.
const LOOK: Duration = Duration::from_millis(100);
/// How long a lease lasts, and how long a client waits for one.
const TTL: Duration = Duration::from_secs(3);
const WAIT: Duration = Duration::from_secs(10);
/// How many orders may wait for a client that is asleep.
const ORDERS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    Acquire,
    Write,
    /// Checks the lease, falls asleep, and sends the write when it wakes.
    WriteAsleep,
    Sleep,
    Wake,
    Release,
}

/// A client, as its buttons see it.
pub struct Actor {
    orders: mpsc::Sender<Order>,
    asleep: Arc<AtomicBool>,
    thread: Thread,
}

impl Actor {
    /// Starts a client on a thread and a runtime of its own. When it falls asleep all of it stops, and
    /// with it the renewal of its lease.
    pub fn start(number: u8, nodes: Nodes, address: SocketAddr, board: Arc<Board>) -> Result<Actor, Box<dyn Error>> {
        let (orders, receiver) = mpsc::channel(ORDERS);
        let asleep = Arc::<AtomicBool>::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let lock = {
            let _within = runtime.enter();
            // As a client of its own has it: it renews its leases.
            nodes.lock(|builder| builder.ttl(TTL).wait(WAIT))?
        };
        let caller = Caller::new(address)?;
        let client = ClientThread { number, lock, caller, board, asleep: Arc::clone(&asleep) };
        let act = move || runtime.block_on(client.act(receiver));
        let running = thread::Builder::new().name(format!("client {number}")).spawn(act)?;
        Ok(Actor { orders, asleep, thread: running.thread().clone() })
    }

    /// Gives an order. Returns why not.
    pub fn order(&self, order: Order) -> Result<(), &'static str> {
        match order {
            Order::Wake if self.asleep.swap(false, SeqCst) => {
                self.thread.unpark();
                Ok(())
            }
            Order::Wake => Err("it is awake"),
            _ if self.asleep.load(SeqCst) => Err("it is asleep: wake it first"),
            order => self.orders.try_send(order).map_err(|_| "it is busy"),
        }
    }
}

struct ClientThread {
    number: u8,
    lock: Arc<dyn Lock>,
    caller: Caller,
    board: Arc<Board>,
    asleep: Arc<AtomicBool>,
}

/// A lease, and when the client believed last that it ends.
struct Held {
    lease: Lease,
    until: u64,
    lost: BoxFuture<'static, Loss>,
}

impl ClientThread {
    async fn act(self, mut orders: mpsc::Receiver<Order>) {
        let Ok(resource) = Resource::new(&FILES[0][1..]) else { return };
        let mut held: Option<Held> = None;
        let mut asked: Option<BoxFuture<'_, Result<Lease, AcquireError>>> = None;
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    None => return,
                    Some(Order::Acquire) if held.is_some() => self.say("refuses", "it has a lease"),
                    Some(Order::Acquire) if asked.is_some() => self.say("refuses", "it asks already"),
                    Some(Order::Acquire) => {
                        self.put("asks", json!({}));
                        asked = Some(self.lock.acquire(&resource).boxed());
                    }
                    Some(Order::Write) => self.write(held.as_mut(), false).await,
                    Some(Order::WriteAsleep) => self.write(held.as_mut(), true).await,
                    Some(Order::Sleep) => self.fall_asleep(held.as_mut(), false),
                    Some(Order::Wake) => {}
                    Some(Order::Release) => match held.take() {
                        Some(held) => self.release(held).await,
                        None if asked.take().is_some() => self.say("gives-up", "it waits no longer"),
                        None => self.say("refuses", "it has no lease"),
                    },
                },
                Some(loss) = OptionFuture::from(held.as_mut().map(|held| &mut held.lost)) => {
                    if let Some(over) = held.take() {
                        self.put_lease(&over.lease, "lost", json!({ "why": loss.to_string() }));
                    }
                }
                Some(answer) = OptionFuture::from(asked.as_mut()) => {
                    asked = None;
                    held = self.take(answer);
                }
                _ = look.tick() => {
                    held.iter_mut().for_each(|held| self.look(held));
                }
            }
        }
    }

    fn take(&self, answer: Result<Lease, AcquireError>) -> Option<Held> {
        match answer {
            Ok(lease) => {
                let (until, lost) = (self.until(&lease), lease.lost().boxed());
                self.put_lease(&lease, "granted", json!({ "until": until }));
                Some(Held { lease, until, lost })
            }
            Err(error) => {
                self.say("not-granted", &error.to_string());
                None
            }
        }
    }

    /// Sees whether the lease was renewed.
    fn look(&self, held: &mut Held) {
        let until = self.until(&held.lease);
        if until > held.until + 2 * LOOK.as_millis() as u64 {
            held.until = until;
            self.put_lease(&held.lease, "renewed", json!({ "until": until }));
        }
    }

    /// Looks at the lease, and writes if it is valid. That is where the pause falls in between.
    async fn write(&self, held: Option<&mut Held>, asleep: bool) {
        let valid = held.filter(|held| !held.lease.valid_for().is_zero());
        let Some(held) = valid else {
            return self.say("refuses", "it looked first: it has no lease");
        };
        let token = held.lease.token();
        if asleep {
            self.fall_asleep(Some(&mut *held), true);
        }
        let text = format!("client {}", self.number);
        for path in FILES {
            let answer = match self.caller.send(Method::PUT, path, Some(token), text.clone()).await {
                Ok(answer) => answer,
                Err(error) => {
                    self.say("failed", &error.to_string());
                    continue;
                }
            };
            let kind = match answer.status {
                status if status.is_success() => "stored",
                StatusCode::PRECONDITION_FAILED => "refused",
                _ => "failed",
            };
            let mut facts = json!({ "file": path, "text": text });
            if kind != "stored" {
                let detail = Problem::read(&answer.headers, &answer.body)
                    .map_or_else(|_| answer.status.to_string(), |problem| problem.detail);
                facts["why"] = json!(detail);
                facts["status"] = json!(answer.status.as_u16());
            }
            self.put_lease(&held.lease, kind, facts);
        }
    }

    /// Stops the whole thread, as a garbage collector does, until somebody wakes it. It says first until when it has its
    /// lease: asleep, it could not.
    fn fall_asleep(&self, held: Option<&mut Held>, within_a_write: bool) {
        held.into_iter().for_each(|held| self.look(held));
        self.put("asleep", json!({ "within_a_write": within_a_write }));
        self.asleep.store(true, SeqCst);
        while self.asleep.load(SeqCst) {
            thread::park();
        }
        self.put("awake", json!({ "within_a_write": within_a_write }));
    }

    async fn release(&self, held: Held) {
        let mut facts = json!({ "token": held.lease.token().to_string() });
        if let Err(error) = held.lease.release().await {
            facts["why"] = json!(error.to_string());
        }
        self.put("released", facts);
    }

    fn until(&self, lease: &Lease) -> u64 {
        self.board.now() + lease.valid_for().as_millis() as u64
    }

    fn put_lease(&self, lease: &Lease, kind: &str, mut facts: Value) {
        facts["token"] = json!(lease.token().to_string());
        self.put(kind, facts);
    }

    fn say(&self, kind: &str, why: &str) {
        self.put(kind, json!({ "why": why }));
    }

    fn put(&self, kind: &str, mut facts: Value) {
        facts["client"] = json!(self.number);
        self.board.put(kind, facts);
    }
}
