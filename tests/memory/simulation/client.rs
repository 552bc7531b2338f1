use std::sync::Arc;
use std::time::Duration;

use fencing::fence::{FenceError, MemoryMarks};
use fencing::lock::AcquireError;
use fencing::{Fence, Lease, Redlock, Resource, Token};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use crate::simulation::trace::Trace;
use crate::simulation::wire::Wire;
use support::history::{Answer, At, Attempt, Event, Outcome, Stored, Write};

/// How long a client waits for the storage.
const PATIENCE: Duration = Duration::from_millis(700);

pub struct Client {
    pub number: usize,
    pub wire: Arc<Wire>,
    pub storage: Storage,
    pub redlock: Redlock,
    pub resources: Vec<Resource>,
    pub ttl: Duration,
    /// Its leases are renewed: it may not just vanish from them.
    pub renews: bool,
    pub rng: fastrand::Rng,
    pub writes: u64,
    pub together: bool,
    pub shares: bool,
}

impl Client {
    pub async fn work(&mut self, end: Instant) {
        while Instant::now() < end {
            if self.together && self.rng.bool() {
                self.hold_together().await;
            } else if self.shares && self.rng.bool() {
                self.hold_shared().await;
            } else if let Some(lease) = self.attempt().await {
                self.hold(&lease).await;
                self.end(lease).await;
            }
            self.pause(600).await;
        }
    }

    /// Gets one lease and does one write, which must come out within a time.
    pub async fn recover(&mut self) -> bool {
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            if let Some(lease) = self.attempt().await
                && self.write(lease.resource(), lease.token(), true).await == Answer::Accepted
            {
                let _ = lease.release().await;
                return true;
            }
            self.pause(300).await;
        }
        false
    }

    async fn pause(&mut self, most: u64) {
        sleep(Duration::from_millis(self.rng.u64(1..most))).await;
    }

    fn some_resource(&mut self) -> Resource {
        self.resources[self.rng.usize(0..self.resources.len())].clone()
    }

    async fn attempt(&mut self) -> Option<Lease> {
        let resource = self.some_resource();
        let asked = self.wire.trace.note(("asks", self.number));
        let attempt = match self.rng.bool() {
            true => self.redlock.acquire(&resource).await,
            false => self.redlock.try_acquire(&resource).await,
        };
        let token = attempt.as_ref().map(|lease| lease.token().get());
        self.answered(&resource, asked, token.map(Outcome::Granted));
        attempt.ok()
    }

    fn answered(&self, resource: &Resource, asked: At, outcome: Result<Outcome, &AcquireError>) {
        let answered = self.wire.trace.note(("answered", self.number));
        let outcome = match outcome {
            Ok(won) => won,
            Err(AcquireError::Held { .. }) => Outcome::Held,
            Err(_) => Outcome::NoQuorum,
        };
        let (client, resource) = (self.number as u32, resource.as_str().to_owned());
        let event = Event::Attempt(Attempt { client, resource, asked, answered, outcome });
        self.wire.trace.event(event);
    }

    /// Releases the lease, drops it, or vanishes from it.
    async fn end<K>(&mut self, lease: Lease<K>) {
        match self.rng.u8(0..10) {
            0..5 => drop(lease.release().await),
            5 | 6 if !self.renews => std::mem::forget(lease),
            _ => drop(lease),
        }
    }

    /// Gets one lease of all resources, in any order, and writes to each.
    async fn hold_together(&mut self) {
        let mut resources = self.resources.clone();
        self.rng.shuffle(&mut resources);
        let asked = self.wire.trace.note(("asks for all", self.number));
        let Ok(lease) = self.redlock.acquire_all(&resources).await else { return };
        let pairs = lease.sequencers().to_vec();
        for pair in &pairs {
            self.answered(&pair.resource, asked, Ok(Outcome::Granted(pair.token.get())));
        }
        for pair in &pairs {
            self.write_and_sleep(&lease, &pair.resource, pair.token).await;
        }
        self.end(lease).await;
    }

    /// Gets a part in a lock and writes under it, beside others perhaps.
    async fn hold_shared(&mut self) {
        let resource = self.some_resource();
        let asked = self.wire.trace.note(("asks to share", self.number));
        let attempt = match self.rng.bool() {
            true => self.redlock.acquire_shared(&resource).await,
            false => self.redlock.try_acquire_shared(&resource).await,
        };
        let token = attempt.as_ref().map(|lease| lease.token().get());
        self.answered(&resource, asked, token.map(Outcome::Shared));
        let Ok(lease) = attempt else { return };
        for _ in 0..self.rng.u8(1..3) {
            self.write_and_sleep(&lease, &resource, lease.token()).await;
        }
        self.end(lease).await;
    }

    /// Writes while it has the lease, and once more when it may be lost: the process does not look.
    async fn write_and_sleep<K>(&mut self, lease: &Lease<K>, resource: &Resource, token: Token) {
        let write = self.write(resource, token, false);
        let _ = lease.run(write).await;
        self.pause(self.ttl.as_millis() as u64 / 2).await;
        self.write(resource, token, false).await;
    }

    async fn hold(&mut self, lease: &Lease) {
        for _ in 0..self.rng.u8(1..4) {
            match self.rng.u8(0..4) {
                // As it ought to be done: dropped as soon as the lease is lost.
                0 => {
                    let write = self.write(lease.resource(), lease.token(), false);
                    let _ = lease.run(write).await;
                }
                // A look at the lease, and then the process stops.
                1 | 2 => {
                    if lease.valid_for().is_zero() {
                        return;
                    }
                    if self.rng.u8(0..3) == 0 {
                        let longest = self.ttl.as_millis() as u64 * 4;
                        let time = self.rng.u64(longest / 8..longest);
                        self.wire.trace.fault("client stopped before its write");
                        self.wire.clients[self.number].stop(Duration::from_millis(time));
                        tokio::task::yield_now().await;
                    }
                    self.write(lease.resource(), lease.token(), false).await;
                }
                // Not even a look.
                _ => drop(self.write(lease.resource(), lease.token(), false).await),
            }
            self.pause(self.ttl.as_millis() as u64 / 2).await;
        }
    }

    async fn write(&mut self, resource: &Resource, token: Token, well: bool) -> Answer {
        self.writes += 1;
        let (number, rng) = (self.number as u64, &mut self.rng);
        // All that the fence lets go on at once have their own millisecond: tokio's `watch` wakes them in no order.
        let slot = (self.writes * 4 + number) % 64;
        let mut delay = |far: u64| {
            let spans = if !well && rng.u8(0..8) == 0 { rng.u64(0..far) } else { 0 };
            Duration::from_millis(spans * 64 + slot + 1)
        };
        let (there, takes, back) = (delay(60), delay(40), delay(20));
        let lost = !well && rng.u8(0..20) == 0;
        let value = format!("{number}-{}", self.writes);
        let (client, name, answer) = (self.number as u32, resource.as_str().to_owned(), Answer::InDoubt);
        let sent = self.wire.trace.note(("sends", number, self.writes));
        let write =
            Write { client, resource: name, token: token.get(), value: value.clone(), sent, answered: 0, answer };
        let mut record = Record { wire: Arc::clone(&self.wire), write };
        let (reply, answer) = oneshot::channel();
        let (storage, resource) = (self.storage.clone(), resource.clone());
        let gate = self.wire.clients[self.number].clone();
        tokio::spawn(async move {
            sleep(there).await;
            let answer = storage.write(&resource, token, value, takes).await;
            sleep(back).await;
            gate.pass().await;
            if !lost {
                let _ = reply.send(answer);
            }
        });
        if let Ok(Ok(answer)) = timeout(PATIENCE, answer).await {
            record.write.answer = answer;
        }
        record.write.answer
    }
}

/// A write that was sent; in doubt if whoever sent it is dropped before it hears.
struct Record {
    wire: Arc<Wire>,
    write: Write,
}

impl Drop for Record {
    fn drop(&mut self) {
        self.write.answered = self.wire.trace.note("write answered");
        self.wire.trace.event(Event::Write(self.write.clone()));
    }
}

/// What the writes go to: behind the fence, or not.
#[derive(Clone)]
pub struct Storage {
    fence: Option<Fence>,
    trace: Trace,
}

impl Storage {
    pub fn new(guarded: bool, trace: Trace) -> Storage {
        let fence = || Fence::new(MemoryMarks::default()).limit(Duration::from_secs(2));
        Storage { fence: guarded.then(fence), trace }
    }

    /// Takes so long to write what it has admitted.
    pub async fn write(&self, resource: &Resource, token: Token, value: String, takes: Duration) -> Answer {
        let admission = match &self.fence {
            None => None,
            Some(fence) => match fence.admit(resource, token).await {
                Ok(admission) => Some(admission),
                Err(FenceError::Stale(stale)) => return Answer::Refused(stale.highest.get()),
                Err(_) => return Answer::Failed,
            },
        };
        sleep(takes).await;
        let resource = resource.as_str().to_owned();
        self.trace.accept(Stored { resource, token: token.get(), value });
        drop(admission);
        Answer::Accepted
    }
}
