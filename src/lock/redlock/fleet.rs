use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use super::bell::Bell;
use super::lane::{Answer, Lane, PATIENCE};
use super::node::Node;
use super::servers::Servers;
use super::steward;
use crate::lock::entropy;
use crate::lock::error::{AcquireError, NodeCause, ReleaseError, Released};
use crate::lock::holder::{Grant, Holder, Renewed};
use crate::lock::settings::{Settings, Terms};
use crate::quorum::{
    Acquire, Bid, Fault, Freed, Holding, Outcome, Owner, Release, Renew, Renewal, Reply, Request,
    majority,
};
use crate::time::Clock;
use crate::{Resource, Token};

/// The nodes of one lock service, and what is the same for all who use them.
pub(super) struct Fleet {
    lanes: Vec<Lane>,
    clock: Arc<dyn Clock>,
    strict: bool,
    /// The longest that a lock of this client may stay on a node, in milliseconds.
    longest: AtomicU64,
    bell: Arc<Bell>,
}

type Calls = FuturesUnordered<BoxFuture<'static, (usize, Result<Reply, Fault>)>>;

impl Fleet {
    pub(super) fn new(
        nodes: Vec<Arc<dyn Node>>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        strict: bool,
    ) -> Fleet {
        let bell = Arc::<Bell>::default();
        // An attempt asks each node twice at most, and waits for each answer for two budgets.
        let servers = Arc::new(Servers::new(PATIENCE.max(settings.budget.saturating_mul(4))));
        let lane = |(number, node)| {
            Lane::new(number, node, settings.budget, Arc::clone(&bell), Arc::clone(&servers))
        };
        let lanes = nodes.into_iter().enumerate().map(lane).collect();
        let fleet = Fleet { lanes, clock, strict, longest: AtomicU64::new(0), bell };
        fleet.outlast(settings.longest());
        fleet
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

    pub(super) fn strict(&self) -> bool {
        self.strict
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
        let cause = |(node, cause)| NodeCause { node: self.name(node).to_owned(), cause };
        faults.into_iter().map(cause).collect()
    }

    pub(super) fn start_steward(self: &Arc<Fleet>) {
        if let Some(notices) = self.bell.unattended() {
            tokio::spawn(steward::run(Arc::downgrade(self), notices));
        }
    }

    /// One attempt. Dropped at any await point, or lost, it releases everywhere.
    pub(super) async fn attempt(
        self: &Arc<Fleet>,
        resource: &Resource,
        terms: Terms,
    ) -> Result<Grant, AcquireError> {
        self.start_steward();
        let owner = Owner(entropy::u128());
        let bid = Bid {
            resource: resource.clone(),
            owner,
            ttl: terms.ttl,
            lock_delay: terms.lock_delay,
            drift: terms.drift,
        };
        let mut takeback = Takeback { fleet: Some(self), resource, owner };
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
                None => break Outcome::NoQuorum { granted: 0, faults: Vec::new() },
            }
        };
        match outcome {
            Outcome::Won { token, deadline } => {
                takeback.fleet = None;
                let holder = Held {
                    fleet: Arc::clone(self),
                    resource: resource.clone(),
                    owner,
                    token,
                    terms,
                    closed: Mutex::new(false),
                };
                Ok(Grant { token, deadline, holder: Arc::new(holder) })
            }
            Outcome::Held { retry_after } => {
                Err(AcquireError::Held { resource: resource.clone(), retry_after })
            }
            Outcome::NoQuorum { granted, faults } => Err(AcquireError::NoQuorum {
                resource: resource.clone(),
                needed: majority(self.size()),
                granted,
                causes: self.causes(faults),
            }),
        }
    }
}

/// Releases everywhere when it is dropped, also where no answer came.
struct Takeback<'a> {
    fleet: Option<&'a Arc<Fleet>>,
    resource: &'a Resource,
    owner: Owner,
}

impl Drop for Takeback<'_> {
    fn drop(&mut self) {
        if let Some(fleet) = self.fleet {
            let request = Request::Release { resource: self.resource.clone(), owner: self.owner };
            drop(fleet.submit_all(&request));
        }
    }
}

struct Held {
    fleet: Arc<Fleet>,
    resource: Resource,
    owner: Owner,
    token: Token,
    terms: Terms,
    /// Set before the release is submitted: a renewal after it could lock again.
    closed: Mutex<bool>,
}

impl Held {
    fn close(&self) -> Calls {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        *closed = true;
        self.fleet.submit_all(&self.release_request())
    }

    fn release_request(&self) -> Request {
        Request::Release { resource: self.resource.clone(), owner: self.owner }
    }
}

impl Holder for Held {
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
            let mut renew = Renew::new(self.fleet.size(), holding, self.fleet.clock.now());
            let mut calls = {
                let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
                if *closed {
                    return Renewed::Failed(Vec::new());
                }
                self.fleet.submit_all(&renew.request())
            };
            loop {
                match renew.outcome(self.fleet.clock.now()) {
                    Some(Renewal::Renewed { deadline }) => return Renewed::Until(deadline),
                    Some(Renewal::Followed) => return Renewed::Followed,
                    Some(Renewal::Failed(faults)) => {
                        return Renewed::Failed(self.fleet.causes(faults));
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
        let mut release = Release::new(self.fleet.size());
        // Submitted here and now: dropping the future takes nothing back.
        let mut calls = self.close();
        Box::pin(async move {
            loop {
                match release.outcome() {
                    Some(Freed::Released) => return Ok(Released::Released),
                    Some(Freed::Lapsed) => return Ok(Released::Lapsed),
                    Some(Freed::InDoubt(faults)) => {
                        return Err(ReleaseError { causes: self.fleet.causes(faults) });
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

    fn abandon(&self) {
        drop(self.close());
    }
}
