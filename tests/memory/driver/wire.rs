//! A node that does with each request what a test says.

use std::sync::{Mutex, MutexGuard};

use fencing_protocol::Fleet;
use futures_util::future::{join_all, pending, ready};

use crate::driver::fleet::*;

/// What becomes of one request.
#[derive(Debug, Clone, Copy)]
pub enum Fate {
    /// It runs, and is answered.
    Runs,
    After(Duration),
    /// It does not run, and is not answered for ever.
    Silence,
    /// The session breaks, for this caller.
    Breaks,
    Full,
}

type Rule = Box<dyn Fn(u64, &Request) -> Fate + Send>;

#[derive(Clone)]
pub struct Wire {
    node: MemoryNode,
    state: Arc<Mutex<State>>,
}

pub struct State {
    rule: Rule,
    /// How many were opened: the number of the newest.
    pub sessions: u64,
    /// The sessions up to this one do not answer when they are tried.
    hung: u64,
    pub refused: u64,
    pub acquires: Vec<Instant>,
    pub calls: Vec<usize>,
}

impl Wire {
    /// Every request runs so far.
    pub fn new(node: MemoryNode) -> Wire {
        let rule: Rule = Box::new(|_, _| Fate::Runs);
        let state = State { rule, sessions: 0, hung: 0, refused: 0, acquires: Vec::new(), calls: Vec::new() };
        Wire { node, state: Arc::new(Mutex::new(state)) }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// From now on, by the number of the session.
    pub fn rule(&self, rule: impl Fn(u64, &Request) -> Fate + Send + 'static) {
        self.state().rule = Box::new(rule);
    }

    /// Has the open sessions not answer when they are tried, as half a connection does.
    pub fn hang(&self) {
        let mut state = self.state();
        state.hung = state.sessions;
    }
}

impl Node for Wire {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn open(&self, fleet: &Fleet, holder: &str) -> BoxFuture<'static, Result<Box<dyn Session>, Fault>> {
        let (opening, wire) = (self.node.open(fleet, holder), self.clone());
        Box::pin(async move {
            let inner = opening.await?;
            let left = wire.state().refused.checked_sub(1);
            if let Some(left) = left {
                wire.state().refused = left;
                return Err(Fault::Disconnected("refused by a test".into()));
            }
            wire.state().sessions += 1;
            let number = wire.state().sessions;
            Ok(Box::new(Wired { inner, wire, number }) as Box<dyn Session>)
        })
    }
}

struct Wired {
    inner: Box<dyn Session>,
    wire: Wire,
    number: u64,
}

impl Session for Wired {
    fn check(&self) -> BoxFuture<'static, Result<(), Fault>> {
        let hangs = self.number <= self.wire.state().hung;
        if hangs { pending().boxed() } else { ready(Ok(())).boxed() }
    }

    fn call(&self, requests: Group<Request>) -> BoxFuture<'static, Group<Result<Reply, Fault>>> {
        self.wire.state().calls.push(requests.len());
        let calls = join_all(requests.into_iter().map(|request| self.call_one(request)));
        calls.map(Group::from_vec).boxed()
    }
}

impl Wired {
    fn call_one(&self, request: Request) -> BoxFuture<'static, Result<Reply, Fault>> {
        let mut state = self.wire.state();
        if matches!(request, Request::Acquire { .. }) {
            state.acquires.push(Instant::now());
        }
        match (state.rule)(self.number, &request) {
            Fate::Runs => ask_alone(&*self.inner, request),
            Fate::After(time) => {
                let call = ask_alone(&*self.inner, request);
                Box::pin(async move {
                    let reply = call.await;
                    sleep(time).await;
                    reply
                })
            }
            Fate::Silence => pending().boxed(),
            Fate::Breaks => ready(Err(Fault::Disconnected("broken by a test".into()))).boxed(),
            Fate::Full => ready(Err(Fault::OutOfMemory)).boxed(),
        }
    }
}
