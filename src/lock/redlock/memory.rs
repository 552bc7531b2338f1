use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};

use super::node::{Node, Session};
use crate::protocol::{
    EPOCH, Fault, Fleet, Incarnation, Membership, Moment, Reply, Request, Store,
};
use crate::resource::Resource;
use crate::time::{Clock, SystemClock, Time};

/// A node in this process, running the same protocol as a Redis node.
///
/// It lives and dies with the process: for tests, demonstrations, and programs of one
/// process. Clones are the same node.
#[derive(Clone)]
pub struct MemoryNode {
    name: String,
    clock: Arc<dyn Clock>,
    /// What the node's clock showed, since 2026, when `clock` showed its beginning.
    base: Duration,
    server: Arc<Mutex<Server>>,
}

struct Server {
    life: u64,
    incarnation: Incarnation,
    /// When the server came up; `None` for one that has never been down: it can't have forgotten
    /// anything.
    since: Option<Time>,
    store: Store,
}

impl fmt::Debug for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryNode").field("name", &self.name).finish_non_exhaustive()
    }
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
        let server = Server { life: 0, incarnation: life(0), since: None, store: Store::default() };
        MemoryNode {
            name: name.into(),
            clock: Arc::new(clock),
            base: Duration::ZERO,
            server: Arc::new(Mutex::new(server)),
        }
    }

    /// Restarts the node with nothing in its memory. Open sessions break.
    pub fn restart(&self) {
        let mut server = self.server();
        server.life += 1;
        server.incarnation = life(server.life);
        server.since = Some(self.clock.now());
        server.store.forget();
    }

    /// Wipes the node's memory, as `FLUSHALL` does. Open sessions go on.
    pub fn flush(&self) {
        self.server().store.forget();
    }

    /// Deletes the lock of `resource`, as an early expiry does.
    pub fn expire(&self, resource: &Resource) {
        self.server().store.expire_lock(resource);
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, me: &Membership, request: &Request) -> Result<Reply, Fault> {
        let mut server = self.server();
        if server.incarnation != me.incarnation {
            return Err(Fault::Disconnected("the node restarted".into()));
        }
        let now = self.clock.now();
        let clock = self.base.saturating_add(now.since(Default::default()));
        let uptime = server.since.map_or(Duration::MAX, |since| now.since(since));
        Ok(server.store.answer(me, request, Moment { now, clock, uptime }))
    }
}

fn life(number: u64) -> Incarnation {
    Incarnation::new(&format!("memory-{number}"))
}

impl Node for MemoryNode {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, fleet: &Fleet) -> BoxFuture<'static, Result<Box<dyn Session>, Fault>> {
        let incarnation = self.server().incarnation.clone();
        let me = Membership { incarnation, fleet: fleet.clone() };
        let session: Box<dyn Session> = Box::new(MemorySession { node: self.clone(), me });
        ready(Ok(session)).boxed()
    }
}

struct MemorySession {
    node: MemoryNode,
    me: Membership,
}

impl Session for MemorySession {
    fn call(&self, request: Request) -> BoxFuture<'static, Result<Reply, Fault>> {
        let (node, me) = (self.node.clone(), self.me.clone());
        async move { node.answer(&me, &request) }.boxed()
    }
}
