use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fencing_protocol::{
    ClientId, Clocks, EPOCH, Fault, Fleet, Incarnation, Membership, Mode, Owner, Reply, Request, Resource, Store,
};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::answers::NodeAnswer;
use super::node::{Group, Node, Session};
use super::waiting_list::{Waiter, WaitingList};
use crate::lock::wait::release_notifications::{Notice, ReleaseListener};
use crate::time::{Clock, SystemClock, Time};

/// A node in this process, running the same protocol as a Redis node.
///
/// It lives and dies with the process: for tests, demonstrations and programs of one process. Clones are one node.
#[derive(Clone, derive_more::Debug)]
#[debug("MemoryNode {{ name: {name:?}, .. }}")]
pub struct MemoryNode {
    name: String,
    clock: Arc<dyn Clock>,
    /// The node's time since 2026 when `clock` was at its beginning.
    base: Duration,
    server: Arc<Mutex<MemoryServer>>,
}

struct MemoryServer {
    /// Whether it runs; a stopped one takes no session.
    up: bool,
    life: u64,
    incarnation: Incarnation,
    /// The start of the server; `None` for one that has never been down: it can't have forgotten anything.
    since: Option<Time>,
    store: Store,
    waiting: WaitingList,
    /// The names under which its locks are held.
    names: BTreeMap<Owner, (Resource, Arc<str>)>,
}

impl MemoryNode {
    /// Returns a blank node on the machine's clock.
    #[must_use]
    pub fn new(name: impl Into<String>) -> MemoryNode {
        let clock = SystemClock;
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let base = wall.saturating_sub(EPOCH).saturating_sub(clock.now().since(Default::default()));
        MemoryNode { base, ..MemoryNode::with_clock(name, clock) }
    }

    /// Returns a blank node on a clock of your own, for tests.
    #[must_use]
    pub fn with_clock(name: impl Into<String>, clock: impl Clock) -> MemoryNode {
        let server = MemoryServer {
            up: true,
            life: 0,
            incarnation: Incarnation::new("memory-0"),
            since: None,
            store: Store::default(),
            waiting: WaitingList::default(),
            names: BTreeMap::new(),
        };
        MemoryNode {
            name: name.into(),
            clock: Arc::new(clock),
            base: Duration::ZERO,
            server: Arc::new(Mutex::new(server)),
        }
    }

    /// Restarts the node with nothing in its memory. Open sessions break.
    pub fn restart(&self) {
        self.stop();
        self.start();
    }

    /// Stops the node like a crash: memory and open sessions are lost, and none opens until [`start`](Self::start).
    pub fn stop(&self) {
        let mut server = self.server.lock();
        server.up = false;
        server.life += 1;
        server.incarnation = Incarnation::new(&format!("memory-{}", server.life));
        server.store.forget();
        server.waiting = WaitingList::default();
    }

    /// Starts a node that was stopped, with nothing in its memory. It does nothing to one that runs.
    pub fn start(&self) {
        // The clock may be the caller's code: it is not read under the lock.
        let now = self.clock.now();
        let mut server = self.server.lock();
        if !server.up {
            server.up = true;
            server.since = Some(now);
        }
    }

    /// Wipes the node's memory, as `FLUSHALL` does. Open sessions continue.
    pub fn flush(&self) {
        self.server.lock().store.forget();
    }

    /// Deletes the lock of `resource`, as an early expiry does.
    pub fn expire(&self, resource: &Resource) {
        self.server.lock().store.expire_lock(resource);
    }

    fn answer(&self, me: &Membership, holder: &Arc<str>, request: &Request) -> NodeAnswer {
        // The clock may be the caller's code: it is not read under the lock.
        let now = self.clock.now();
        let mut server = self.server.lock();
        if server.incarnation != me.incarnation {
            return Err(restarted());
        }
        let clock = self.base.saturating_add(now.since(Default::default()));
        let uptime = server.since.map_or(Duration::MAX, |since| now.since(since));
        let mut reply = server.store.answer(me, request, Clocks { now, clock, uptime });
        server.complete(holder, request, &mut reply, now);
        Ok(reply)
    }
}

impl MemoryServer {
    /// Notes and names the holders of the locks in the answer to a request, notifies a waiter for what the request has
    /// set free, and names that in the answer, too.
    fn complete(&mut self, holder: &Arc<str>, request: &Request, reply: &mut Reply, now: Time) {
        if let (Request::Several(requests), Reply::Several(replies)) = (request, &mut *reply) {
            let both = requests.iter().zip(replies);
            return both.for_each(|(request, reply)| self.complete(holder, request, reply, now));
        }
        self.sign(holder, request, reply);
        let (Request::Release { resource, .. }
        | Request::Retire { resource, .. }
        | Request::Acquire { mode: Mode::Shared, resource, .. }) = request
        else {
            return;
        };
        let free = !self.store.is_locked(resource, now);
        match reply {
            Reply::Released if free => {
                if let Some(client) = self.waiting.notify(resource, now) {
                    *reply = Reply::ReleasedAndNotified { client };
                }
            }
            // The next one may share it as well.
            Reply::Granted { .. } => drop(self.waiting.notify(resource, now)),
            // It is free for a waiting writer.
            Reply::Held { .. } if free => drop(self.waiting.notify(resource, now)),
            _ => {}
        }
    }

    /// Notes the name under which a lock was granted or renewed, and returns the holder of one that was not.
    fn sign(&mut self, name: &Arc<str>, request: &Request, reply: &mut Reply) {
        let (Request::Acquire { resource, owner, .. }
        | Request::Renew { resource, owner, .. }
        | Request::Resume { resource, owner, .. }) = request
        else {
            return;
        };
        match reply {
            Reply::Granted { .. } | Reply::Renewed => {
                // Now and then those of locks that are over are dropped.
                if self.names.len().is_power_of_two() && !self.names.contains_key(owner) {
                    self.names.retain(|owner, (resource, _)| self.store.is_owner(resource, *owner));
                }
                self.names.insert(*owner, (resource.clone(), Arc::clone(name)));
            }
            Reply::Held { holder, .. } => *holder = self.store.owner(resource).map(|owner| self.shown(owner)),
            _ => {}
        }
    }

    /// Returns the value of the lock on a Redis node.
    fn shown(&self, owner: Owner) -> Arc<str> {
        let name = self.names.get(&owner);
        name.map_or_else(|| owner.to_string(), |(_, name)| format!("{owner} {name}")).into()
    }
}

fn restarted() -> Fault {
    Fault::Disconnected("the node restarted".into())
}

fn stopped() -> Fault {
    Fault::Unreachable("the node is stopped".into())
}

impl Node for MemoryNode {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, fleet: &Fleet, holder: &str) -> BoxFuture<'static, Result<Box<dyn Session>, Fault>> {
        let server = self.server.lock();
        if !server.up {
            return ready(Err(stopped())).boxed();
        }
        let me = Membership { incarnation: server.incarnation.clone(), fleet: fleet.clone() };
        let (node, holder) = (self.clone(), holder.into());
        let session: Box<dyn Session> = Box::new(MemorySession { node, me, holder });
        ready(Ok(session)).boxed()
    }

    fn listen(&self, client: ClientId) -> BoxFuture<'static, Result<Box<dyn ReleaseListener>, Fault>> {
        let mut server = self.server.lock();
        if !server.up {
            return ready(Err(stopped())).boxed();
        }
        let (node, notices) = (self.clone(), server.waiting.listen(client));
        let listener: Box<dyn ReleaseListener> = Box::new(MemoryListener { node, client, notices });
        ready(Ok(listener)).boxed()
    }
}

struct MemorySession {
    node: MemoryNode,
    me: Membership,
    holder: Arc<str>,
}

impl Session for MemorySession {
    fn call(&self, requests: Group<Request>) -> BoxFuture<'static, Group<NodeAnswer>> {
        let (node, me, holder) = (self.node.clone(), self.me.clone(), Arc::clone(&self.holder));
        let answer = move |request: &Request| node.answer(&me, &holder, request);
        async move { requests.iter().map(answer).collect() }.boxed()
    }
}

struct MemoryListener {
    node: MemoryNode,
    client: ClientId,
    notices: mpsc::UnboundedReceiver<Notice>,
}

impl ReleaseListener for MemoryListener {
    fn wait(&mut self, resource: &Resource, ticket: u64, waited: Duration) {
        let (now, mut server) = (self.node.clock.now(), self.node.server.lock());
        let waiter = Waiter { client: self.client, ticket, since: now - waited };
        let locked = server.store.is_locked(resource, now);
        server.waiting.wait(resource, locked, now, waiter);
    }

    fn leave(&mut self, resource: &Resource, ticket: u64) {
        let (now, mut server) = (self.node.clock.now(), self.node.server.lock());
        let locked = server.store.is_locked(resource, now);
        server.waiting.leave(resource, locked, now, (self.client, ticket));
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Notice, Fault>> {
        async { self.notices.recv().await.ok_or_else(restarted) }.boxed()
    }
}
