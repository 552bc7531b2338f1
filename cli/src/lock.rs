use std::sync::Arc;
use std::time::Duration;

use fencing::lock::{AcquireError, ConnectError, ConnectOptions, Fault, Health, Lock, NodeCause};
use fencing::{Lease, Resource};
use tokio::time::{sleep, timeout};

use crate::duration::{self, about};
use crate::exit::{self, Failure};
use crate::place::LockPlace;
use crate::say;

#[derive(Debug, clap::Args)]
pub(crate) struct LockArgs {
    #[command(flatten)]
    place: LockPlace,
    /// Time limit for one answer [default: 50ms on nodes, otherwise 2s; at most a quarter of the TTL on nodes and in
    /// ZooKeeper, a third in etcd, half in a database].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    node_budget: Option<Duration>,
}

impl LockArgs {
    pub(crate) fn options(&self) -> Result<ConnectOptions, Failure> {
        let options = self.place.chosen(false)?.options();
        Ok(if let Some(budget) = self.node_budget { options.budget(budget) } else { options })
    }
}

pub(crate) struct ChosenLock {
    pub(crate) lock: Arc<dyn Lock>,
    /// The error of creating the tables of a database, if any.
    pub(crate) not_ready: Option<String>,
}

/// Time limit for requests in flight at the end.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a wait looks whether the nodes can grant at all.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);

impl ChosenLock {
    pub(crate) async fn open(options: ConnectOptions) -> Result<ChosenLock, Failure> {
        match options.connect().await {
            Ok(lock) => Ok(ChosenLock { lock, not_ready: None }),
            Err(ConnectError::NotReady { lock, source, .. }) => match Failure::of(&*source) {
                // No wait helps.
                refused @ Failure(exit::REFUSED, _) => Err(refused),
                // It may come up later.
                Failure(_, why) => Ok(ChosenLock { lock, not_ready: Some(why) }),
            },
            Err(error) => Err(Failure::usage(error)),
        }
    }

    /// Waits for the lock. Says once if it waits for a quarantine, which can be long, and ends where no wait helps.
    pub(crate) async fn acquire(&self, resource: &Resource, wait: Duration) -> Result<Lease, AcquireError> {
        let mut said = false;
        let acquired = async {
            if wait.is_zero() { self.lock.try_acquire(resource).await } else { self.lock.acquire(resource).await }
        };
        let moved = async {
            loop {
                sleep(HEALTH_INTERVAL).await;
                let health = self.lock.health().await;
                if let Some(closed) = closed(&health).filter(|_| !said) {
                    say::error(format_args!("waiting: {closed}"));
                    said = true;
                }
                if has_moved(&health) {
                    return;
                }
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = acquired => outcome,
            () = moved => self.lock.try_acquire(resource).await,
        };
        match outcome {
            Err(AcquireError::NoQuorum { .. }) if !said => {
                closed(&self.lock.health().await).iter().for_each(say::error);
            }
            Err(AcquireError::Unavailable { .. }) => self.not_ready.iter().for_each(say::error),
            _ => {}
        }
        outcome
    }

    /// Waits for releases in flight, and for nodes that are being re-admitted.
    pub(crate) async fn settle(&self) {
        let _ = timeout(SETTLE_TIMEOUT, self.lock.settle()).await;
    }
}

/// Reports whether too few nodes belong to this fleet for any wait to help.
fn has_moved(health: &Health) -> bool {
    let elsewhere = |cause: &&NodeCause| matches!(cause.cause, Fault::Moved { .. } | Fault::OtherFleet { .. });
    let minority = health.fleet.len().saturating_sub(health.needed);
    health.causes.iter().filter(elsewhere).count() > minority
}

/// Says for how long quarantines keep a majority from granting, and how to end them.
pub(crate) fn closed(health: &Health) -> Option<String> {
    let quarantine = |cause: &NodeCause| if let Fault::Quarantined(left) = cause.cause { Some(left) } else { None };
    let mut times: Vec<Duration> = health.causes.iter().filter_map(quarantine).collect();
    times.sort_unstable();
    let in_the_way = health.needed.checked_sub(health.granting + 1)?;
    let time = times.get(in_the_way).or(times.last())?;
    let left = about(*time);
    Some(match health.fleet.is_empty() {
        true => format!("no lock is granted for another {left}, until earlier leases have ended"),
        false => format!(
            "too few nodes grant for another {left}, until the locks that they may have forgotten have \
             expired; `fencing fleet recover --now` says when and how to end that"
        ),
    })
}
