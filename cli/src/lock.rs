use std::sync::Arc;
use std::time::Duration;

use fencing::lock::{AcquireError, ConnectError, ConnectOptions, Fault, Lock, NodeCause};
use fencing::{Lease, Redlock};
use tokio::time::{Instant, sleep, timeout};

use crate::args::{Chosen, LockPlace, RunArgs};
use crate::duration::about;
use crate::exit::Failure;
use crate::{pool, say};

/// The lock service that the command line asks for.
pub(crate) struct ChosenLock {
    pub(crate) lock: Arc<dyn Lock>,
    /// Why the tables of a database could not be created, if so.
    pub(crate) not_ready: Option<String>,
}

/// The numbers of its leases.
pub(crate) struct LockOptions {
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    pub(crate) at_least: Duration,
    pub(crate) node_budget: Option<Duration>,
    /// Whether leases are renewed until they are released.
    pub(crate) renew: bool,
    /// The name that they are held under, if one is given.
    pub(crate) holder: Option<String>,
}

/// How long what is still on its way may take at the end.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
/// The wait is cut into pieces of this length: between two of them a message may say why the nodes do not grant.
const SLICE: Duration = Duration::from_secs(1);
const SLICE_INTERVAL: Duration = Duration::from_millis(100);

impl ChosenLock {
    /// Opens the lock service in this place.
    pub(crate) async fn open(
        place: &LockPlace,
        terms: &LockOptions,
    ) -> Result<ChosenLock, Failure> {
        match place.chosen()? {
            Chosen::Redis(urls) => nodes(&urls, place.namespace(), terms),
            Chosen::Database(url) => database(&url, terms).await,
        }
    }

    /// Waits for the lock. Says once if it is nodes that are waited for, as that can be long, and
    /// ends where no wait helps.
    pub(crate) async fn acquire(&self, run: &RunArgs) -> Result<Lease, AcquireError> {
        let (start, mut said) = (Instant::now(), false);
        loop {
            let left = run.wait.saturating_sub(start.elapsed());
            let outcome = match self.lock.with_wait(left.min(SLICE)) {
                Ok(lock) if !run.wait.is_zero() => lock.acquire(&run.resource).await,
                _ => self.lock.try_acquire(&run.resource).await,
            };
            let last = left <= SLICE || self.has_moved(&outcome).await;
            if let Some(closed) = outcome.as_ref().err().and_then(closed).filter(|_| !said) {
                let waiting = if last { "" } else { "waiting: " };
                say::error(format_args!("{waiting}{closed}"));
                said = true;
            }
            if outcome.is_ok() || last {
                if let (Err(AcquireError::Unavailable { .. }), Some(why)) =
                    (&outcome, &self.not_ready)
                {
                    say::error(why);
                }
                return outcome;
            }
            sleep(SLICE_INTERVAL).await;
        }
    }

    /// Waits for releases that are on their way, and for nodes that are being brought back.
    pub(crate) async fn settle(&self) {
        drop(timeout(SETTLE_TIMEOUT, self.lock.settle()).await);
    }

    /// Reports whether too few nodes belong to this fleet for any wait to help.
    async fn has_moved(&self, outcome: &Result<Lease, AcquireError>) -> bool {
        let elsewhere = |cause: &&NodeCause| {
            matches!(cause.cause, Fault::Moved { .. } | Fault::OtherFleet { .. })
        };
        let Err(error) = outcome else { return false };
        if error.causes().iter().find(elsewhere).is_none() {
            return false;
        }
        let health = self.lock.health().await;
        let left = health.fleet.len() - health.causes.iter().filter(elsewhere).count();
        left < health.needed
    }
}

fn nodes(urls: &[String], namespace: &str, terms: &LockOptions) -> Result<ChosenLock, Failure> {
    let builder = Redlock::builder().redis(urls).namespace(namespace).renew(terms.renew);
    let builder = builder.ttl(terms.ttl).wait(terms.wait).lock_at_least_for(terms.at_least);
    let builder = match terms.node_budget {
        Some(budget) => builder.node_budget(budget),
        None => builder,
    };
    let builder = match &terms.holder {
        Some(name) => builder.holder(name),
        None => builder,
    };
    let lock = builder.build().map_err(Failure::usage)?;
    Ok(ChosenLock { lock: Arc::new(lock), not_ready: None })
}

async fn database(url: &str, terms: &LockOptions) -> Result<ChosenLock, Failure> {
    pool::kind(url)?;
    let options = ConnectOptions::new(url).ttl(terms.ttl).wait(terms.wait).renew(terms.renew);
    let options = options.lock_at_least_for(terms.at_least);
    let options = match terms.node_budget {
        Some(budget) => options.budget(budget),
        None => options,
    };
    let options = match &terms.holder {
        Some(name) => options.holder(name),
        None => options,
    };
    match options.connect().await {
        Ok(lock) => Ok(ChosenLock { lock, not_ready: None }),
        // It may come up later.
        Err(ConnectError::NotReady { lock, source, .. }) => {
            Ok(ChosenLock { lock, not_ready: Some(say::chain(&*source)) })
        }
        Err(ConnectError::Build(error)) => Err(Failure::usage(error)),
        Err(error) => Err(Failure::usage(format_args!("--database: {error}"))),
    }
}

/// For how long too few nodes grant because some are quarantined, and how that is skipped.
fn closed(error: &AcquireError) -> Option<String> {
    let AcquireError::NoQuorum { nodes, needed, causes, .. } = error else { return None };
    let mut times: Vec<Duration> = causes
        .iter()
        .filter_map(|cause| match cause.cause {
            Fault::Quarantined(left) => Some(left),
            _ => None,
        })
        .collect();
    times.sort_unstable();
    let in_the_way = (causes.len() + needed).saturating_sub(nodes + 1);
    let time = times.get(in_the_way).or(times.last())?;
    Some(format!(
        "too few nodes grant for another {}, until the locks that they may have forgotten have \
         expired; if no lock is held, `fencing fleet admit --now` ends that",
        about(*time)
    ))
}
