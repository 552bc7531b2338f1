use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use super::distinct_servers::DistinctServers;
use super::lane::{Answer, Lane, PATIENCE, Shared};
use super::node::Node;
use super::outstanding::Outstanding;
use super::readmission;
use crate::lock::error::{AcquireError, NodeCause, ReleaseError, Released};
use crate::lock::held_lock::{Grant, HeldLock, Renewed};
use crate::lock::settings::{Settings, Terms};
use crate::protocol::{
    Acquire, AcquireOutcome, Bid, Fault, Fleet, Holding, Nonce, Owner, Readmission, Release,
    ReleaseOutcome, Renew, RenewOutcome, Reply, Request, majority,
};
use crate::random;
use crate::resource::Resource;
use crate::time::Clock;
use crate::token::Token;

/// The nodes of one lock service, and what is the same for all who use them.
pub(super) struct Nodes {
    lanes: Vec<Lane>,
    shared: Shared,
    clock: Arc<dyn Clock>,
    starting: Starting,
    /// The longest that a lock of this client may stay on a node, in milliseconds.
    longest: AtomicU64,
    /// Why a node that is not admitted was not brought back when that was last tried.
    blocked: Mutex<BTreeMap<usize, Fault>>,
}

/// What a client may do where too few nodes remember.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Starting {
    /// Leave it to an operator.
    pub(super) strict: bool,
    /// Somebody has said that no lock can be out, if all nodes are blank.
    pub(super) nothing_out: bool,
}

type Calls = FuturesUnordered<BoxFuture<'static, (usize, Result<Reply, Fault>)>>;

impl Nodes {
    pub(super) fn new(
        nodes: Vec<Arc<dyn Node>>,
        fleet: Fleet,
        clock: Arc<dyn Clock>,
        settings: Settings,
        starting: Starting,
    ) -> Nodes {
        let shared = Shared {
            fleet,
            budget: settings.budget,
            notices: Arc::default(),
            // An attempt asks each node twice at most, and waits for each answer for two budgets.
            distinct_servers: Arc::new(DistinctServers::new(
                PATIENCE.max(settings.budget.saturating_mul(4)),
            )),
            outstanding: Outstanding::default(),
        };
        let lane = |(number, node)| Lane::new(number, node, shared.clone());
        let lanes = nodes.into_iter().enumerate().map(lane).collect();
        let (longest, blocked) = (AtomicU64::new(0), Mutex::default());
        let nodes = Nodes { lanes, shared, clock, starting, longest, blocked };
        nodes.outlast(settings.longest());
        nodes
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(super) fn size(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn longest(&self) -> Duration {
        Duration::from_millis(self.longest.load(Ordering::SeqCst))
    }

    /// A quarantine must outlast the locks of this client.
    pub(super) fn outlast(&self, longest: Duration) {
        let longest = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        self.longest.fetch_max(longest, Ordering::SeqCst);
    }

    /// The order to bring a node back, or to collect its counts.
    pub(super) fn readmission(&self, target: usize, collect: bool) -> Readmission {
        let Starting { strict, nothing_out } = self.starting;
        let (nonce, longest) = (Nonce(random::u128()), self.longest());
        Readmission { target, collect, nonce, longest, strict, nothing_out }
    }

    pub(super) fn fleet(&self) -> &Fleet {
        &self.shared.fleet
    }

    pub(super) fn budget(&self) -> Duration {
        self.shared.budget
    }

    pub(super) fn outstanding(&self) -> &Outstanding {
        &self.shared.outstanding
    }

    /// Notes why a node can't be brought back, or that it can.
    pub(super) fn set_blocked(&self, node: usize, why: Option<Fault>) {
        let mut blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        match why {
            Some(fault) => blocked.insert(node, fault),
            None => blocked.remove(&node),
        };
    }

    pub(super) fn name(&self, node: usize) -> &str {
        self.lanes.get(node).map_or("", Lane::name)
    }

    pub(super) fn submit(&self, node: usize, request: Request) -> Option<Answer> {
        self.lanes.get(node).map(|lane| lane.submit(request))
    }

    pub(super) fn submit_all(&self, request: &Request) -> Calls {
        let lanes = self.lanes.iter().enumerate();
        lanes
            .map(|(node, lane)| {
                let answer = lane.submit(request.clone());
                let call: BoxFuture<'static, _> =
                    Box::pin(async move { (node, answer.get().await) });
                call
            })
            .collect()
    }

    pub(super) fn causes(&self, faults: Vec<(usize, Fault)>) -> Vec<NodeCause> {
        let blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        let cause = |(node, fault)| {
            let known = blocked.get(&node).filter(|_| fault == Fault::NotAdmitted);
            let cause = known.cloned().unwrap_or(fault);
            NodeCause { node: self.name(node).to_owned(), cause }
        };
        faults.into_iter().map(cause).collect()
    }

    pub(super) fn start_readmission(self: &Arc<Nodes>) {
        if let Some(notices) = self.shared.notices.unattended() {
            tokio::spawn(readmission::run(Arc::downgrade(self), notices));
        }
    }

    /// One attempt. Dropped at any await point, or lost, it releases everywhere.
    pub(super) async fn attempt(
        self: &Arc<Nodes>,
        resource: &Resource,
        terms: Terms,
    ) -> Result<Grant, AcquireError> {
        self.start_readmission();
        let owner = Owner(random::u128());
        let bid = Bid {
            resource: resource.clone(),
            owner,
            ttl: terms.ttl,
            lock_delay: terms.lock_delay,
            drift: terms.drift,
        };
        let mut release_on_drop = ReleaseOnDrop { nodes: Some(self), resource, owner };
        let mut acquire = Acquire::new(self.size(), bid, self.clock.now());
        let mut calls = FuturesUnordered::new();
        let outcome = loop {
            while let Some((node, request)) = acquire.next_request() {
                if let Some(answer) = self.submit(node, request) {
                    calls.push(async move { (node, answer.get().await) });
                }
            }
            if let Some(outcome) = acquire.outcome(self.clock.now()) {
                break outcome;
            }
            match calls.next().await {
                Some((node, reply)) => acquire.on_reply(node, reply),
                None => break AcquireOutcome::NoQuorum { granted: 0, faults: Vec::new() },
            }
        };
        match outcome {
            AcquireOutcome::Won { token, deadline } => {
                release_on_drop.nodes = None;
                let holder = HeldOnNodes {
                    nodes: Arc::clone(self),
                    resource: resource.clone(),
                    owner,
                    token,
                    terms,
                    closed: Mutex::new(false),
                };
                Ok(Grant { token, deadline, holder: Arc::new(holder) })
            }
            AcquireOutcome::Held { retry_after } => {
                Err(AcquireError::Held { resource: resource.clone(), retry_after })
            }
            AcquireOutcome::NoQuorum { granted, faults } => Err(AcquireError::NoQuorum {
                resource: resource.clone(),
                needed: majority(self.size()),
                granted,
                causes: self.causes(faults),
            }),
        }
    }
}

/// Releases everywhere when it is dropped, also where no answer came.
struct ReleaseOnDrop<'a> {
    nodes: Option<&'a Arc<Nodes>>,
    resource: &'a Resource,
    owner: Owner,
}

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(nodes) = self.nodes {
            let request = Request::Release { resource: self.resource.clone(), owner: self.owner };
            drop(nodes.submit_all(&request));
        }
    }
}

struct HeldOnNodes {
    nodes: Arc<Nodes>,
    resource: Resource,
    owner: Owner,
    token: Token,
    terms: Terms,
    /// Set before the release is submitted: a renewal after it could lock again.
    closed: Mutex<bool>,
}

impl HeldOnNodes {
    fn close(&self) -> Calls {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        *closed = true;
        self.nodes.submit_all(&self.release_request())
    }

    fn release_request(&self) -> Request {
        Request::Release { resource: self.resource.clone(), owner: self.owner }
    }
}

impl HeldLock for HeldOnNodes {
    fn renew(&self) -> BoxFuture<'_, Renewed> {
        Box::pin(async {
            let holding = Holding {
                resource: self.resource.clone(),
                owner: self.owner,
                token: self.token,
                ttl: self.terms.ttl,
                lock_delay: self.terms.lock_delay,
                drift: self.terms.drift,
            };
            let mut renew = Renew::new(self.nodes.size(), holding, self.nodes.clock.now());
            let mut calls = {
                let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
                if *closed {
                    return Renewed::Failed(Vec::new());
                }
                self.nodes.submit_all(&renew.request())
            };
            loop {
                match renew.outcome(self.nodes.clock.now()) {
                    Some(RenewOutcome::Renewed { deadline }) => return Renewed::Until(deadline),
                    Some(RenewOutcome::Superseded) => return Renewed::Superseded,
                    Some(RenewOutcome::Failed(faults)) => {
                        return Renewed::Failed(self.nodes.causes(faults));
                    }
                    None => {}
                }
                match calls.next().await {
                    Some((node, reply)) => renew.on_reply(node, reply),
                    None => return Renewed::Failed(Vec::new()),
                }
            }
        })
    }

    fn release(&self) -> BoxFuture<'_, Result<Released, ReleaseError>> {
        let mut release = Release::new(self.nodes.size());
        // Submitted here and now: dropping the future takes nothing back.
        let mut calls = self.close();
        Box::pin(async move {
            loop {
                match release.outcome() {
                    Some(ReleaseOutcome::Released) => return Ok(Released::Released),
                    Some(ReleaseOutcome::Lapsed) => return Ok(Released::Lapsed),
                    Some(ReleaseOutcome::InDoubt(faults)) => {
                        return Err(ReleaseError { causes: self.nodes.causes(faults) });
                    }
                    None => {}
                }
                match calls.next().await {
                    Some((node, reply)) => release.on_reply(node, reply),
                    None => return Err(ReleaseError { causes: Vec::new() }),
                }
            }
        })
    }

    fn abandon(&self, lost: bool) {
        if lost && !self.terms.lock_delay.is_zero() {
            *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
            return;
        }
        drop(self.close());
    }
}
