//! A node whose sessions do with each request what a test says.

use std::sync::Mutex;

use fencing_protocol::Fleet;
use futures_util::future::{pending, ready};

use crate::driver::fleet::*;

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It runs, and is answered.
    Runs,
    /// It runs, and is answered so much later.
    After(Duration),
    /// It does not run, and is not answered for ever.
    Silence,
    /// The session breaks, for this caller.
    Breaks,
}

type Rule = Box<dyn Fn(u64, &Request) -> Fate + Send>;

/// The requests that came, with the number of their session, the first being 1.
type Log = Vec<(Instant, u64, Request)>;

#[derive(Clone)]
pub struct Wire {
    node: MemoryNode,
    rule: Arc<Mutex<Rule>>,
    sessions: Arc<Mutex<u64>>,
    /// The sessions up to this one are gone.
    cut: Arc<Mutex<u64>>,
    /// The sessions up to this one do not answer when they are tried.
    hung: Arc<Mutex<u64>>,
    log: Arc<Mutex<Log>>,
}

impl Wire {
    /// Every request runs so far.
    pub fn new(node: MemoryNode) -> Wire {
        let rule: Rule = Box::new(|_, _| Fate::Runs);
        let rule = Arc::new(Mutex::new(rule));
        let (sessions, cut, hung) = (Arc::default(), Arc::default(), Arc::default());
        Wire { node, rule, sessions, cut, hung, log: Arc::default() }
    }

    /// From now on.
    pub fn rule(&self, rule: impl Fn(u64, &Request) -> Fate + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
    }

    /// How many sessions were opened.
    pub fn sessions(&self) -> u64 {
        *self.sessions.lock().unwrap()
    }

    /// Ends the sessions up to this one, which shows when one is tried.
    pub fn cut(&self, last: u64) {
        *self.cut.lock().unwrap() = last;
    }

    /// Has the sessions up to this one not answer when they are tried, as half a connection does.
    pub fn hang(&self, last: u64) {
        *self.hung.lock().unwrap() = last;
    }

    /// When each acquire came.
    pub fn acquires(&self) -> Vec<Instant> {
        let log = self.log.lock().unwrap();
        let acquires = log.iter().filter(|(_, _, what)| matches!(what, Request::Acquire { .. }));
        acquires.map(|(at, _, _)| *at).collect()
    }

    /// How many releases came.
    pub fn releases(&self) -> usize {
        let log = self.log.lock().unwrap();
        log.iter().filter(|(_, _, what)| matches!(what, Request::Release { .. })).count()
    }
}

impl Node for Wire {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn open(&self, fleet: &Fleet) -> BoxFuture<'static, Result<Box<dyn Session>, Fault>> {
        let (opening, wire) = (self.node.open(fleet), self.clone());
        async move {
            let inner = opening.await?;
            let number = {
                let mut sessions = wire.sessions.lock().unwrap();
                *sessions += 1;
                *sessions
            };
            let session: Box<dyn Session> = Box::new(Wired { inner, wire, number });
            Ok(session)
        }
        .boxed()
    }
}

struct Wired {
    inner: Box<dyn Session>,
    wire: Wire,
    number: u64,
}

impl Session for Wired {
    fn check(&self) -> BoxFuture<'static, Result<(), Fault>> {
        if self.number <= *self.wire.hung.lock().unwrap() {
            return pending().boxed();
        }
        let gone = self.number <= *self.wire.cut.lock().unwrap();
        let gone = gone.then(|| Fault::Disconnected("cut by a test".into()));
        ready(gone.map_or(Ok(()), Err)).boxed()
    }

    fn call(&self, request: Request) -> BoxFuture<'static, Result<Reply, Fault>> {
        let fate = (self.wire.rule.lock().unwrap())(self.number, &request);
        self.wire.log.lock().unwrap().push((Instant::now(), self.number, request.clone()));
        match fate {
            Fate::Runs => self.inner.call(request),
            Fate::After(time) => {
                let call = self.inner.call(request);
                async move {
                    let reply = call.await;
                    sleep(time).await;
                    reply
                }
                .boxed()
            }
            Fate::Silence => pending().boxed(),
            Fate::Breaks => ready(Err(Fault::Disconnected("broken by a test".into()))).boxed(),
        }
    }
}
