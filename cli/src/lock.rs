use std::sync::Arc;
use std::time::Duration;

use fencing::lock::{AcquireError, ConnectError, ConnectOptions, Fault, Lock, NodeCause};
use fencing::{Lease, Resource};
use tokio::time::{Instant, sleep, timeout};

use crate::duration::{self, about};
use crate::exit::Failure;
use crate::place::{Chosen, LockPlace};
use crate::{pool, say};

/// The lock service that a command takes leases from.
#[derive(Debug, clap::Args)]
pub(crate) struct LockArgs {
    #[command(flatten)]
    place: LockPlace,
    /// Time limit for an answer of one node [default: 50ms, or a quarter of a short TTL; for a
    /// database 2s, or half of a short TTL].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    node_budget: Option<Duration>,
}

impl LockArgs {
    pub(crate) fn options(&self) -> Result<ConnectOptions, Failure> {
        let options = match self.place.chosen()? {
            Chosen::Redis(redis) => {
                // Each is the URL of a Redis.
                redis.nodes()?;
                ConnectOptions::new(redis.urls).namespace(redis.namespace)
            }
            Chosen::Database(url) => {
                pool::kind(&url)?;
                ConnectOptions::new(url)
            }
        };
        Ok(match self.node_budget {
            Some(budget) => options.budget(budget),
            None => options,
        })
    }
}

/// The lock service that the command line asks for.
pub(crate) struct ChosenLock {
    pub(crate) lock: Arc<dyn Lock>,
    /// The error of creating the tables of a database, if any.
    pub(crate) not_ready: Option<String>,
}

/// Time limit for requests in flight at the end.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
/// The wait is cut into pieces of this length: between two of them a message may say why the nodes do not grant.
const SLICE: Duration = Duration::from_secs(1);
const SLICE_INTERVAL: Duration = Duration::from_millis(100);

impl ChosenLock {
    pub(crate) async fn open(options: ConnectOptions) -> Result<ChosenLock, Failure> {
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

    /// Waits for the lock. Says once if it waits for a quarantine, which can be long, and ends where no wait helps.
    pub(crate) async fn acquire(
        &self,
        resource: &Resource,
        wait: Duration,
    ) -> Result<Lease, AcquireError> {
        let (start, mut said) = (Instant::now(), false);
        loop {
            let left = wait.saturating_sub(start.elapsed());
            let outcome = match self.lock.with_wait(left.min(SLICE)) {
                Ok(lock) if !wait.is_zero() => lock.acquire(resource).await,
                _ => self.lock.try_acquire(resource).await,
            };
            let last = left <= SLICE || self.has_moved(&outcome).await;
            if let Some(closed) = outcome.as_ref().err().and_then(closed).filter(|_| !said) {
                let waiting = if last { "" } else { "waiting: " };
                say::error(format_args!("{waiting}{closed}"));
                said = true;
            }
            if outcome.is_ok() || last {
                if matches!(outcome, Err(AcquireError::Unavailable { .. })) {
                    self.not_ready.iter().for_each(say::error);
                }
                return outcome;
            }
            sleep(SLICE_INTERVAL).await;
        }
    }

    /// Waits for releases in flight, and for nodes that are being re-admitted.
    pub(crate) async fn settle(&self) {
        let _ = timeout(SETTLE_TIMEOUT, self.lock.settle()).await;
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

/// Says for how long quarantines keep a majority from granting, and how to end them.
fn closed(error: &AcquireError) -> Option<String> {
    let AcquireError::NoQuorum { nodes, needed, causes, .. } = error else { return None };
    let quarantine = |cause: &NodeCause| match cause.cause {
        Fault::Quarantined(left) => Some(left),
        _ => None,
    };
    let mut times: Vec<Duration> = causes.iter().filter_map(quarantine).collect();
    times.sort_unstable();
    let in_the_way = (causes.len() + needed).saturating_sub(nodes + 1);
    let time = times.get(in_the_way).or(times.last())?;
    Some(format!(
        "too few nodes grant for another {}, until the locks that they may have forgotten have \
         expired; if no lock is held, `fencing fleet admit --now` ends that",
        about(*time)
    ))
}
