use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::error::{ReleaseError, Released};
use super::held_lock::{Grant, HeldLock};
use super::sleep::sleep_until;
use super::watchdog;
use crate::resource::Resource;
use crate::time::{Clock, Time};
use crate::token::Token;

/// Where a lease stands, as far as this process can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Held until then, unless it is renewed.
    Until(Time),
    /// Over, and why.
    Over(Loss),
}

/// Why a lease is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// Its deadline passed without a renewal.
    #[error("the lease expired")]
    Expired,
    /// The nodes say that somebody else has come.
    #[error("the lease was followed by another")]
    Superseded,
    /// It was held for as long as `max_hold` allows.
    #[error("the lease reached its longest hold")]
    MaxHold,
    /// It was released.
    #[error("the lease was released")]
    Released,
}

impl Loss {
    /// Why a lease ended at its deadline.
    pub(super) fn at(deadline: Time, end: Option<Time>) -> Loss {
        if end.is_some_and(|end| deadline >= end) { Loss::MaxHold } else { Loss::Expired }
    }
}

/// The lease was lost while work went on under it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("lease lost, {resource} token {token}: {loss}")]
pub struct LeaseLost {
    /// What was locked.
    pub resource: Resource,
    /// The lease's token.
    pub token: Token,
    /// Why it is over.
    pub loss: Loss,
}

/// How a lease is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keeping {
    pub(super) ttl: Duration,
    pub(super) renew: bool,
    pub(super) max_hold: Option<Duration>,
}

/// What a client holds: a lock for a time, and the token that fences it.
///
/// A watchdog renews it each third of its TTL until it is released, lost, or held for
/// `max_hold`. Dropped, it is released as well as can be without waiting; one that was lost before
/// stays closed for its lock-delay, if it has one.
///
/// **Fencing.** A lease may be lost at any moment, also between a look at it and a
/// write. Only a storage that compares [`token`](Lease::token) makes a late write safe.
#[must_use = "a lease that is dropped is released"]
pub struct Lease {
    resource: Resource,
    token: Token,
    clock: Arc<dyn Clock>,
    standing: Arc<watch::Sender<Standing>>,
    holder: Arc<dyn HeldLock>,
    /// When `max_hold` is reached.
    end: Option<Time>,
    watchdog: Option<JoinHandle<()>>,
    released: bool,
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("resource", &self.resource)
            .field("token", &self.token)
            .field("valid_for", &self.valid_for())
            .finish_non_exhaustive()
    }
}

impl Lease {
    pub(super) fn new(
        resource: Resource,
        grant: Grant,
        clock: Arc<dyn Clock>,
        keeping: Keeping,
    ) -> Lease {
        let end = keeping.max_hold.map(|most| clock.now() + most);
        let deadline = end.map_or(grant.deadline, |end| grant.deadline.min(end));
        let standing = Arc::new(watch::Sender::new(Standing::Until(deadline)));
        let watchdog = keeping.renew.then(|| {
            let watchdog = watchdog::Watchdog {
                resource: resource.clone(),
                token: grant.token,
                clock: Arc::clone(&clock),
                standing: Arc::clone(&standing),
                holder: Arc::clone(&grant.holder),
                ttl: keeping.ttl,
                end,
            };
            tokio::spawn(watchdog::run(watchdog))
        });
        Lease {
            resource,
            token: grant.token,
            clock,
            standing,
            holder: grant.holder,
            end,
            watchdog,
            released: false,
        }
    }

    /// The fencing token: hand it to every write that the lease is to protect.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// What is locked.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// How long the lease lasts from now unless it is renewed; zero when it is over.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        match *self.standing.borrow() {
            Standing::Until(deadline) => deadline.since(self.clock.now()),
            Standing::Over(_) => Duration::ZERO,
        }
    }

    /// Resolves when the lease is over, and says why: at its deadline at the latest,
    /// whatever the nodes do. The deadline counts time in which the machine was
    /// suspended, where the system has such a clock.
    ///
    /// # Cancel safety
    /// Any number of these may be awaited, and dropped.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static {
        let (clock, end) = (Arc::clone(&self.clock), self.end);
        let mut standing = self.standing.subscribe();
        async move {
            loop {
                let now = *standing.borrow_and_update();
                let deadline = match now {
                    Standing::Over(loss) => return loss,
                    Standing::Until(deadline) => deadline,
                };
                tokio::select! {
                    biased;
                    changed = standing.changed() => if changed.is_err() {
                        // The lease was dropped, which releases it.
                        return match *standing.borrow() {
                            Standing::Over(loss) => loss,
                            Standing::Until(_) => Loss::Released,
                        };
                    },
                    () = sleep_until(&*clock, deadline) => {
                        // A renewal may have come at the last moment.
                        if *standing.borrow() == now {
                            return Loss::at(deadline, end);
                        }
                    }
                }
            }
        }
    }

    /// Runs `work` and drops it the moment the lease is lost.
    ///
    /// # Errors
    /// [`LeaseLost`] if the lease was over first. The work may have been done in part.
    ///
    /// # Cancel safety
    /// Dropped, it drops the work. The lease stays.
    ///
    /// **Fencing.** A request that the work has already sent may still arrive: give it
    /// the token.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LeaseLost> {
        let mut lost = pin!(self.lost());
        let mut work = pin!(work);
        poll_fn(|context| {
            let loss = match lost.as_mut().poll(context) {
                Poll::Ready(loss) => Some(loss),
                // Timers may lag behind the clock: never poll the work of a lapsed lease.
                Poll::Pending => self.lapsed(),
            };
            match loss {
                Some(loss) => Poll::Ready(Err(LeaseLost {
                    resource: self.resource.clone(),
                    token: self.token,
                    loss,
                })),
                None => work.as_mut().poll(context).map(Ok),
            }
        })
        .await
    }

    /// Ends the lease on all nodes.
    ///
    /// # Errors
    /// [`ReleaseError`] if too few nodes answered to say; the lock is gone by the end of
    /// its TTL.
    ///
    /// # Cancel safety
    /// Once polled, the release has been sent and goes on without the future.
    pub async fn release(mut self) -> Result<Released, ReleaseError> {
        self.stop();
        let lapsed = self.valid_for().is_zero();
        self.released = true;
        self.standing.send_if_modified(|standing| {
            let held = matches!(standing, Standing::Until(_));
            if held {
                *standing = Standing::Over(if lapsed { Loss::Expired } else { Loss::Released });
            }
            held
        });
        let outcome = self.holder.release().await;
        if lapsed { Ok(Released::Lapsed) } else { outcome }
    }

    fn lapsed(&self) -> Option<Loss> {
        match *self.standing.borrow() {
            Standing::Until(deadline) if self.clock.now() < deadline => None,
            Standing::Until(deadline) => Some(Loss::at(deadline, self.end)),
            Standing::Over(loss) => Some(loss),
        }
    }

    /// After this nothing is renewed any more: a renewal that came after the release
    /// could lock again.
    fn stop(&mut self) {
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.abort();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.stop();
        if !self.released {
            let lost = self.lapsed().is_some();
            self.standing.send_if_modified(|standing| {
                let held = matches!(standing, Standing::Until(_));
                if held {
                    *standing = Standing::Over(Loss::Released);
                }
                held
            });
            self.holder.abandon(lost);
        }
    }
}
