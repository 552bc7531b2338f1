use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use fencing_protocol::{Fault, Owner, Resource, Terms};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::task::task_tracker::TaskTrackerToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::claim::Claim;
use super::client::{Client, Repeat};
use super::fault::Failure;
use super::keys::Keys;
use super::messages::{
    Answer, Compare, Is, LeaseGrant, LeaseRevoke, LeaseTimeToLive, Op, Range, Txn,
};
use crate::lock::error::Loss;
use crate::lock::lease::state::LeaseState;
use crate::lock::token_base::{Largest, first_base};
use crate::random::jitter;
use crate::time::{Clock, Time};

/// A session with more owners in doubt takes no new locks.
const MAX_IN_DOUBT: usize = 127;
/// The shortest time of an etcd lease.
pub(super) const MIN_SECONDS: u64 = 2;
/// The pause before a broken watch is set up again.
const WATCH_PAUSE: Duration = Duration::from_millis(100);

/// What all sessions of one lock service share.
#[derive(derive_more::Debug)]
#[debug("{client:?}")]
pub(super) struct Cluster {
    pub(super) client: Client,
    pub(super) keys: Keys,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) largest: Largest,
    /// The requests in flight that `settle` waits for. It is closed.
    pub(super) requests: TaskTracker,
}

/// An etcd lease with the locks that are on it, for one TTL and one runtime.
///
/// It has a sentinel, a key that is there for as long as the etcd lease. A sentinel that is gone, or was created at
/// another revision, ends the session and all of its leases: nothing renews it into life.
pub(super) struct EtcdSession {
    pub(super) cluster: Arc<Cluster>,
    ttl: Duration,
    pub(super) budget: Duration,
    pub(super) lease: i64,
    /// The revision at which the sentinel was created, which identifies the session.
    pub(super) created: i64,
    /// The latest known revision of the sentinel. Each sweep changes it.
    modified: AtomicI64,
    pub(super) state: Mutex<State>,
    /// Wakes the task of the session.
    work: Arc<Notify>,
    /// A sweep has succeeded, or the session is over.
    pub(super) swept: Notify,
    pub(super) runtime: Handle,
    tasks: OnceLock<[AbortOnDropHandle<()>; 2]>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) over: bool,
    /// The start of the last renewal that succeeded.
    pub(super) renewed: Time,
    used: Time,
    held: HashMap<u128, HeldClaim>,
    /// Those that may be in their locks, or come into them late, and must not be.
    pub(super) doubtful: Vec<Arc<Claim>>,
    /// Those that are released and stay closed until then.
    closing: Vec<(Time, Arc<Claim>)>,
    pub(super) renewals: Vec<Renewal>,
}

struct HeldClaim {
    claim: Arc<Claim>,
    /// The end of the lease and its lock-delay.
    until: Time,
    lease: Weak<LeaseState>,
}

/// A lease that asks to be renewed.
pub(super) struct Renewal {
    pub(super) claim: Arc<Claim>,
    /// The revision that created its locks.
    pub(super) revision: i64,
    /// The start of the renewal, or `None` if a lock is gone.
    pub(super) answer: oneshot::Sender<Result<Option<Time>, Fault>>,
}

impl EtcdSession {
    /// Starts a session. Where an answer is lost, its etcd lease ends by itself, and the next start takes another one.
    pub(super) async fn start(
        cluster: &Arc<Cluster>,
        terms: &Terms,
        budget: Duration,
    ) -> Result<Arc<EtcdSession>, Fault> {
        let (client, keys) = (&cluster.client, &cluster.keys);
        let now = cluster.clock.now();
        let seconds = seconds(terms.ttl * 4 / 3 + terms.lock_delay);
        let grant = LeaseGrant { seconds: i64::try_from(seconds).unwrap_or(i64::MAX) };
        let fault = |failure: Failure| failure.fault;
        let lease = client.ask(&grant, budget).await.map_err(fault)?.id;
        let longest = keys.longest();
        let longer = Txn {
            // Both have as many digits.
            compare: vec![Compare::value(
                longest.clone(),
                Is::Greater,
                digits(seconds.saturating_sub(1)),
            )],
            success: Vec::new(),
            failure: vec![Op::put(longest, digits(seconds), 0)],
        };
        let base = Op::put(keys.base(), first_base().to_string().into(), 0);
        let start = Txn {
            compare: vec![Compare::absent(keys.closed())],
            success: vec![
                Op::txn(Txn::only_if(Compare::absent(keys.base()), base)),
                Op::txn(longer),
                Op::put(keys.sentinel(lease), Vec::new(), lease),
            ],
            failure: vec![Op::range(Range::one(keys.closed()))],
        };
        let (answer, _) = client.call(&start, budget, Repeat::Never).await.map_err(fault)?;
        if let Some(closed) = answer.read(0).first().filter(|_| !answer.succeeded) {
            let left = client.ask(&LeaseTimeToLive { id: closed.lease }, budget).await;
            let left = left.map_err(fault)?.seconds.max(1);
            return Err(Fault::Quarantined(Duration::from_secs(u64::try_from(left).unwrap_or(1))));
        }
        let created = answer.header().revision;
        let session = Arc::new(EtcdSession {
            cluster: Arc::clone(cluster),
            ttl: terms.ttl,
            budget,
            lease,
            created,
            modified: AtomicI64::new(created),
            state: Mutex::new(State { renewed: now, used: now, ..State::default() }),
            work: Arc::default(),
            swept: Notify::new(),
            runtime: Handle::current(),
            tasks: OnceLock::new(),
        });
        let runs = tokio::spawn(run(Arc::downgrade(&session), Arc::clone(&session.work)));
        let watches = tokio::spawn(watch(
            Arc::downgrade(&session),
            Arc::clone(cluster),
            lease,
            created,
            budget,
        ));
        let _ = session.tasks.set([runs, watches].map(AbortOnDropHandle::new));
        Ok(session)
    }

    /// Returns whether new locks may be put on it.
    pub(super) fn is_usable(&self) -> bool {
        let now = self.cluster.clock.now();
        let state = self.state.lock();
        !state.over && state.doubtful.len() <= MAX_IN_DOUBT && now < self.expires(state.renewed)
    }

    /// Returns when its etcd lease may be gone, but for a lock-delay.
    fn expires(&self, renewed: Time) -> Time {
        renewed + self.ttl * 4 / 3
    }

    pub(super) fn modified(&self) -> i64 {
        self.modified.load(Ordering::Acquire)
    }

    pub(super) fn note_modified(&self, revision: i64) {
        self.modified.fetch_max(revision, Ordering::AcqRel);
    }

    /// Returns the end of a lease that was asked for at `start`: it is not longer than the etcd lease.
    pub(super) fn deadline(&self, terms: &Terms, start: Time) -> Time {
        terms.deadline(start.min(self.state.lock().renewed + self.ttl / 3))
    }

    /// Waits until nothing of these resources is in doubt here, not for longer than that.
    pub(super) async fn clear(&self, claim: &Claim, end: Instant) {
        let concerns = |resource: &Resource| claim.locks.iter().any(|(it, _)| it == resource);
        loop {
            let mut swept = std::pin::pin!(self.swept.notified());
            swept.as_mut().enable();
            let waits = |claim: &Arc<Claim>| claim.locks.iter().any(|(it, _)| concerns(it));
            if !self.state.lock().doubtful.iter().any(waits)
                || timeout_at(end, swept).await.is_err()
            {
                return;
            }
        }
    }

    /// Waits until nothing is in doubt.
    pub(super) async fn settle(&self) {
        loop {
            let mut swept = std::pin::pin!(self.swept.notified());
            swept.as_mut().enable();
            if self.state.lock().doubtful.is_empty() {
                return;
            }
            swept.await;
        }
    }

    /// Notes the locks of a lease, until it ends with its lock-delay. Returns false if the session is over.
    pub(super) fn hold(&self, claim: &Arc<Claim>, until: Time) -> bool {
        let mut state = self.state.lock();
        let held = HeldClaim { claim: Arc::clone(claim), until, lease: Weak::new() };
        !state.over && state.held.insert(claim.owner.0, held).is_none()
    }

    /// Learns which lease the locks belong to. If the session is over, so is the lease.
    pub(super) fn watched(&self, owner: Owner, lease: &Arc<LeaseState>) {
        match self.state.lock().held.get_mut(&owner.0) {
            Some(held) => held.lease = Arc::downgrade(lease),
            None => drop(lease.close(Loss::Expired)),
        }
    }

    /// Notes a renewal. It shortens none.
    pub(super) fn hold_until(&self, owner: Owner, until: Time) {
        if let Some(held) = self.state.lock().held.get_mut(&owner.0) {
            held.until = held.until.max(until);
        }
    }

    /// Forgets the locks of a lease. Returns whether the session had them.
    pub(super) fn forget(&self, owner: Owner) -> bool {
        self.state.lock().held.remove(&owner.0).is_some()
    }

    /// Deletes these locks later.
    pub(super) fn close(&self, until: Time, claims: [Arc<Claim>; 2]) {
        self.state.lock().closing.extend(claims.map(|claim| (until, claim)));
        self.work.notify_one();
    }

    /// Returns for how long a lock stays closed that this session has released, if it does.
    pub(super) fn closes_in(&self, resource: &Resource) -> Option<Duration> {
        let (now, state) = (self.cluster.clock.now(), self.state.lock());
        let has = |claim: &Claim| claim.locks.iter().any(|(it, _)| it == resource);
        let closing = state.closing.iter().filter(|(_, claim)| has(claim));
        closing.map(|(until, _)| until.since(now)).max()
    }

    /// Has the next round renew a lease. Returns nothing if the session is over.
    pub(super) fn renew(
        &self,
        claim: &Arc<Claim>,
        revision: i64,
    ) -> Option<oneshot::Receiver<Result<Option<Time>, Fault>>> {
        let (answer, answered) = oneshot::channel();
        let mut state = self.state.lock();
        if state.over || !state.held.contains_key(&claim.owner.0) {
            return None;
        }
        state.renewals.push(Renewal { claim: Arc::clone(claim), revision, answer });
        self.work.notify_one();
        Some(answered)
    }

    /// Ends the session, because its etcd lease is gone: all of its leases are lost.
    pub(super) fn end(&self) {
        let held = {
            let mut state = self.state.lock();
            state.over = true;
            state.doubtful.clear();
            state.closing.clear();
            state.renewals.clear();
            std::mem::take(&mut state.held)
        };
        for lease in held.into_values().filter_map(|held| held.lease.upgrade()) {
            lease.close(Loss::Expired);
        }
        self.swept.notify_waiters();
        self.work.notify_one();
    }

    /// Does what is due, and returns when to look again; nothing once it is over.
    async fn turn(self: &Arc<Self>) -> Option<Duration> {
        let (renewals, renews, sweeps) = match self.due() {
            Due::Work { renewals, renews, sweeps } => (renewals, renews, sweeps),
            Due::End => {
                self.end();
                return None;
            }
            Due::Revoke => {
                revoke(&self.cluster, self.lease, self.budget).await;
                return None;
            }
        };
        let round = async { if renews { self.round(renewals).await } else { Ok(()) } };
        let sweep = async { if sweeps { self.sweep().await } else { Ok(()) } };
        let (round, sweep) = futures_util::future::join(round, sweep).await;
        if let Err(fault) = round.and(sweep) {
            tracing::debug!(%fault, "etcd gave no answer that counts");
            return Some(self.ttl / 48 + jitter(self.ttl / 48));
        }
        let now = self.cluster.clock.now();
        let state = self.state.lock();
        if !state.doubtful.is_empty() || !state.renewals.is_empty() {
            return Some(Duration::ZERO);
        }
        let closing = state.closing.iter().map(|(until, _)| *until);
        let next = closing.chain([state.renewed + self.ttl / 3]).min()?;
        Some(next.since(now).max(Duration::from_millis(1)))
    }

    /// Returns what is due, in one step.
    fn due(self: &Arc<Self>) -> Due {
        let (now, mut state) = (self.cluster.clock.now(), self.state.lock());
        if state.over || now >= self.expires(state.renewed) {
            return Due::End;
        }
        let lapsed = state.held.extract_if(|_, held| held.until <= now);
        let mut due: Vec<_> = lapsed.map(|(_, held)| held.claim).collect();
        due.extend(state.closing.extract_if(.., |(until, _)| *until <= now).map(|it| it.1));
        state.doubtful.append(&mut due);
        // The service has it, and this task.
        if Arc::strong_count(self) > 2 || !state.closing.is_empty() || !state.held.is_empty() {
            state.used = now;
        }
        if state.doubtful.is_empty() && now.since(state.used) >= self.ttl {
            state.over = true;
            return Due::Revoke;
        }
        let renews = now >= state.renewed + self.ttl / 3 || !state.renewals.is_empty();
        let renewals = std::mem::take(&mut state.renewals);
        Due::Work { renewals, renews, sweeps: !state.doubtful.is_empty() }
    }
}

/// What a session has to do.
enum Due {
    Work {
        renewals: Vec<Renewal>,
        renews: bool,
        sweeps: bool,
    },
    /// Its etcd lease may have ended.
    End,
    /// Nobody uses it.
    Revoke,
}

/// Where the service and its leases have gone, the locks go too, unless one is to stay closed.
impl Drop for EtcdSession {
    fn drop(&mut self) {
        let now = self.cluster.clock.now();
        let state = self.state.get_mut();
        let stays = state.held.values().any(|held| held.until > now) || !state.closing.is_empty();
        if !state.over && !stays {
            let (cluster, lease, budget) = (Arc::clone(&self.cluster), self.lease, self.budget);
            let counted = cluster.requests.token();
            self.runtime.spawn(async move {
                revoke(&cluster, lease, budget).await;
                drop(counted);
            });
        }
    }
}

/// Locks that may be held under this owner, or will be. Dropped, they are swept.
pub(super) struct InDoubt {
    doubt: Option<(Arc<EtcdSession>, Arc<Claim>)>,
    _counted: TaskTrackerToken,
}

impl InDoubt {
    pub(super) fn new(session: &Arc<EtcdSession>, claim: &Arc<Claim>) -> InDoubt {
        let doubt = Some((Arc::clone(session), Arc::clone(claim)));
        InDoubt { doubt, _counted: session.cluster.requests.token() }
    }

    pub(super) fn decided(mut self) {
        self.doubt = None;
    }
}

impl Drop for InDoubt {
    fn drop(&mut self) {
        if let Some((session, claim)) = self.doubt.take() {
            let mut state = session.state.lock();
            if !state.over {
                state.doubtful.push(claim);
                session.work.notify_one();
            }
        }
    }
}

/// The task of a session: it renews, sweeps, and ends it when it is not used any more.
async fn run(session: Weak<EtcdSession>, work: Arc<Notify>) {
    loop {
        let Some(session) = session.upgrade() else { return };
        let Some(pause) = session.turn().await else { return };
        drop(session);
        let _ = timeout(pause, work.notified()).await;
    }
}

/// Ends the session as soon as its sentinel is gone. A member that is not up to date may renew for a while.
async fn watch(
    session: Weak<EtcdSession>,
    cluster: Arc<Cluster>,
    lease: i64,
    created: i64,
    budget: Duration,
) {
    let key = cluster.keys.sentinel(lease);
    loop {
        let is_gone = async {
            let answer = cluster.client.ask(&Range::one(key.clone()), budget).await.ok()?;
            if answer.kvs.first().is_none_or(|sentinel| sentinel.created != created) {
                return Some(());
            }
            let span = (key.clone(), Vec::new());
            let watch = cluster.client.watch(span, answer.header().revision + 1);
            timeout(budget, watch).await.ok()?.ok()?.deleted().await.ok().map(drop)
        };
        if is_gone.await.is_some() {
            if let Some(session) = session.upgrade() {
                session.end();
            }
            return;
        }
        sleep(WATCH_PAUSE / 2 + jitter(WATCH_PAUSE)).await;
    }
}

pub(super) async fn revoke(cluster: &Cluster, id: i64, budget: Duration) {
    if let Err(failure) = cluster.client.ask(&LeaseRevoke { id }, budget).await {
        tracing::debug!(fault = %failure.fault, "an etcd lease is left to end by itself");
    }
}

/// Returns the seconds of an etcd lease that lasts for this long at least.
pub(super) fn seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(MIN_SECONDS)
}

fn digits(seconds: u64) -> Vec<u8> {
    format!("{seconds:020}").into()
}
