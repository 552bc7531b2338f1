use std::iter::once;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use fencing_protocol::Fault;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::claim::{EtcdRefusal, MAX_OPS, MAX_SWEPT};
use super::client::Repeat;
use super::cluster::Cluster;
use super::messages::{Compare, EtcdAnswer, Is, Op, Range, Txn};
use super::session::{EtcdRenewal, EtcdSession, State, seconds};
use crate::lock::engine::token_base::first_base;
use crate::lock::runtime::restarted;
use crate::lock::settings::Settings;
use crate::random::jitter;
use crate::time::Time;

/// The pause before a broken watch is set up again.
const WATCH_PAUSE: Duration = Duration::from_millis(100);

/// Starts a session and its tasks. Where that fails, its etcd lease is revoked, and the next start takes another one.
pub(super) async fn start(cluster: Arc<Cluster>, settings: Settings) -> Result<Arc<EtcdSession>, Fault> {
    let (terms, budget, now) = (settings.terms(), settings.budget(), cluster.clock.now());
    let seconds = seconds(terms.ttl * 4 / 3 + terms.lock_delay);
    cluster.client.check_members(budget / 4).await?;
    let lease = cluster.grant(seconds, budget).await?;
    let created = put_sentinel(&cluster, lease, seconds, budget).await;
    let created = created.inspect_err(|_| cluster.revoke(&Handle::current(), lease, budget))?;
    let session = Arc::new(EtcdSession {
        cluster: Arc::clone(&cluster),
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
    let (weak, work) = (Arc::downgrade(&session), Arc::clone(&session.work));
    let watches = watch(Weak::clone(&weak), cluster, lease, created, budget);
    let runs = restarted(move || run(Weak::clone(&weak), Arc::clone(&work)));
    let _ = session.tasks.set([tokio::spawn(runs), tokio::spawn(watches)].map(AbortOnDropHandle::new));
    Ok(session)
}

/// Puts the sentinel of a session and what the first one needs, unless the service is closed. Returns the revision.
async fn put_sentinel(cluster: &Cluster, lease: i64, seconds: u64, budget: Duration) -> Result<i64, Fault> {
    let (client, keys) = (&cluster.client, &cluster.keys);
    // Padded to 20 digits, because etcd compares values as bytes.
    let digits = |seconds: u64| format!("{seconds:020}").into_bytes();
    let shorter = digits(seconds.saturating_sub(1));
    let longer = Txn {
        compare: vec![Compare::value(keys.longest(), Is::Greater, shorter)],
        failure: vec![Op::put(keys.longest(), digits(seconds), 0)],
        ..Txn::default()
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
    let (answer, _) = client.call(&start, budget, Repeat::Never).await?;
    let Some(closed) = answer.read(0).first().filter(|_| !answer.succeeded) else {
        return Ok(answer.header().revision);
    };
    Err(cluster.closed(closed, budget).await)
}

/// Renews and sweeps until the session is over, or nobody has it any more.
async fn run(session: Weak<EtcdSession>, work: Arc<Notify>) {
    while let Some(session) = session.upgrade() {
        let Some(pause) = session.run_once().await else { return };
        drop(session);
        let _ = timeout(pause, work.notified()).await;
    }
}

/// Ends the session as soon as its sentinel is gone. A member that is not up to date may renew for a while.
async fn watch(session: Weak<EtcdSession>, cluster: Arc<Cluster>, lease: i64, created: i64, budget: Duration) {
    let key = cluster.keys.sentinel(lease);
    let is_gone = async || {
        let answer = cluster.client.ask(&Range::one(key.clone()), budget).await.ok()?;
        if answer.kvs.first().is_none_or(|sentinel| sentinel.created != created) {
            return Some(());
        }
        cluster.client.deleted((key.clone(), Vec::new()), answer.header().revision, budget).await.ok().map(drop)
    };
    while is_gone().await.is_none() {
        sleep(WATCH_PAUSE / 2 + jitter(WATCH_PAUSE)).await;
    }
    if let Some(session) = session.upgrade() {
        session.end();
    }
}

impl EtcdSession {
    /// Does what is due, and returns the pause until the next call; `None` once the session is over.
    async fn run_once(self: &Arc<Self>) -> Option<Duration> {
        let (renewals, renews, sweeps) = self.due()?;
        let round = async { if renews { self.round(renewals).await } else { Ok(()) } };
        let sweep = async { if sweeps { self.sweep().await } else { Ok(()) } };
        let (round, sweep) = futures_util::future::join(round, sweep).await;
        if let Err(fault) = round.and(sweep) {
            tracing::debug!(%fault, "etcd gave no answer that counts");
            return Some(self.ttl / 48 + jitter(self.ttl / 48));
        }
        let (now, state) = (self.cluster.clock.now(), self.state.lock());
        if !state.doubtful.is_empty() || !state.renewals.is_empty() {
            return Some(Duration::ZERO);
        }
        let next = state.held.values().map(|held| held.until).fold(state.renewed + self.ttl / 3, Time::min);
        Some(next.since(now).max(Duration::from_millis(1)))
    }

    /// Returns, in one step, the renewals asked for, and whether to renew and to sweep; none once the session is over.
    fn due(self: &Arc<Self>) -> Option<(Vec<EtcdRenewal>, bool, bool)> {
        let (now, mut guard) = (self.cluster.clock.now(), self.state.lock());
        if guard.over || now >= self.expires(guard.renewed) {
            drop(guard);
            self.end();
            return None;
        }
        let state = &mut *guard;
        let lapsed = state.held.extract_if(|_, held| held.until <= now);
        state.doubtful.extend(lapsed.map(|(_, held)| (held.claim, self.cluster.requests.token())));
        // The service and this task have one reference each.
        if Arc::strong_count(self) > 2 || !state.held.is_empty() {
            state.used = now;
        }
        if state.doubtful.is_empty() && now.since(state.used) >= self.ttl {
            state.over = true;
            self.cluster.revoke(&self.runtime, self.lease, self.budget);
            return None;
        }
        let renews = now >= state.renewed + self.ttl / 3 || !state.renewals.is_empty();
        let renewals = std::mem::take(&mut state.renewals);
        Some((renewals, renews, !state.doubtful.is_empty()))
    }

    /// Renews the etcd lease, and with it these leases. First it reads the sentinel and the locks of those leases, each
    /// by its key: that costs less than a watch on the locks of all clients, and finds a lock that an operator has
    /// deleted. The reads are linearizable, so that no old leader answers. Then the same member prolongs the etcd
    /// lease. That alone would prove nothing: an old leader does it, too. Validity counts from before the reads.
    async fn round(&self, renewals: Vec<EtcdRenewal>) -> Result<(), Fault> {
        let start = self.cluster.clock.now();
        let kept = self.read_and_prolong(&renewals).await;
        match &kept {
            Ok(Some(_)) => {
                let mut state = self.state.lock();
                state.renewed = state.renewed.max(start);
            }
            Ok(None) => self.end(),
            Err(_) => {}
        }
        // If the session is over, no lease is kept.
        let mut kept = kept.map(|kept| kept.unwrap_or_default().into_iter());
        for renewal in renewals {
            let _ = renewal.answer.send(match &mut kept {
                Ok(kept) => Ok(kept.next().unwrap_or(false).then_some(start)),
                Err(fault) => Err(fault.clone()),
            });
        }
        kept.map(drop)
    }

    /// Returns for each renewal whether its locks are still there; nothing if the session is over.
    async fn read_and_prolong(&self, renewals: &[EtcdRenewal]) -> Result<Option<Vec<bool>>, Fault> {
        let of = |(number, renewal): (usize, &EtcdRenewal)| {
            let keys = renewal.claim.locks.iter().map(|(_, key)| key.clone());
            keys.map(move |key| (Some(number), key)).collect::<Vec<_>>()
        };
        // The sentinel is read even if no lock is: an old leader cannot answer a read.
        let sentinel = self.cluster.keys.sentinel(self.lease);
        let is_mine = Compare::created(sentinel.clone(), Is::Equal, self.created);
        let keys: Vec<_> = once((None, sentinel)).chain(renewals.iter().enumerate().flat_map(of)).collect();
        let (mut kept, mut last) = (vec![true; renewals.len()], None);
        for page in keys.chunks(MAX_OPS) {
            let reads = page.iter().map(|(_, key)| Op::range(Range::one(key.clone())));
            let reads = Txn { compare: vec![is_mine.clone()], success: reads.collect(), failure: Vec::new() };
            let (answer, number) = self.cluster.client.call(&reads, self.budget, Repeat::Elsewhere).await?;
            if !answer.succeeded {
                return Ok(None);
            }
            for (place, (number, _)) in page.iter().enumerate() {
                let Some(number) = *number else { continue };
                if let (Some(renewal), Some(kept)) = (renewals.get(number), kept.get_mut(number)) {
                    *kept &= renewal.claim.is_in(answer.read(place));
                }
            }
            last = Some((answer.header().member, number));
        }
        let Some((member, number)) = last else { return Ok(None) };
        let prolonged = self.cluster.client.prolong(number, self.lease, self.budget).await?;
        if prolonged.header().member != member {
            return Err(Fault::Disconnected("another member has answered".into()));
        }
        Ok((prolonged.seconds > 0).then_some(kept))
    }

    /// Deletes the locks of owners in doubt, and changes the sentinel, so that no transaction that compares the earlier
    /// one takes effect any more. It sweeps one page of owners, because renewals wait for it.
    async fn sweep(&self) -> Result<(), Fault> {
        let keys = &self.cluster.keys;
        let (mut count, mut ops) = (0, Vec::new());
        for (claim, _) in &self.state.lock().doubtful {
            // An owner of more locks has two pages.
            if count > 0 && ops.len() + claim.locks.len() > MAX_SWEPT {
                break;
            }
            ops.extend(claim.sweeps(keys, self.lease));
            count += 1;
        }
        for page in ops.chunks(MAX_SWEPT) {
            let sentinel = Op::put(keys.sentinel(self.lease), Vec::new(), self.lease);
            let sweep = Txn { success: page.iter().cloned().chain([sentinel]).collect(), ..Txn::default() };
            // Guarded: a late copy of this request must not delete a lock that was moved to this session since. If
            // another copy came first, this one is refused, and the next sweep deletes the rest.
            match self.guarded(sweep, self.budget).await {
                Ok(answer) => self.modified.fetch_max(answer.header().revision, Ordering::AcqRel),
                Err(EtcdRefusal::Failed(failure)) => return Err(failure.fault),
                Err(_) => return Ok(()),
            };
        }
        let mut state = self.state.lock();
        // New owners were added behind the swept ones. `end` clears the list.
        let count = count.min(state.doubtful.len());
        state.doubtful.drain(..count);
        self.swept.notify_waiters();
        Ok(())
    }
}
