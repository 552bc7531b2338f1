//! Lock services that break one rule each.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencing::lock::{AcquireError, BuildError, Health, Lease, LeaseSet, Lock, SharedLease};
use fencing::{Redlock, Resource};
use futures_util::future::{BoxFuture, join};
use tokio::time::sleep;

use crate::lock::{lapse_contract, lock_contract, shared_contract};
use crate::{breach, nodes};
use support::clock::TokioClock;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Flaw {
    /// Two fleets that know nothing of each other, used in turn.
    EqualTokens,
    GrantsWhatIsHeld,
    DoesNotWait,
    IgnoresNames,
    LeavesDroppedLocks,
    /// Each reader holds a lock of its own.
    SharesAnother,
    /// It never says that it waits, and asks again and again.
    StarvesWriters,
}

#[derive(Debug)]
struct FlawedLock {
    flaw: Flaw,
    fleets: [Redlock; 2],
    calls: AtomicUsize,
    kept: Mutex<Vec<Lease>>,
}

impl FlawedLock {
    async fn new(flaw: Flaw) -> FlawedLock {
        let clock = TokioClock::new();
        let fleet =
            || Redlock::builder().nodes(nodes(&clock)).clock(clock.clone()).build().unwrap();
        let fleets = [fleet(), fleet()];
        if flaw == Flaw::EqualTokens {
            // Both begin within the same second, and so with the same era.
            let warm = Resource::new("warm").unwrap();
            let (a, b) = join(fleets[0].acquire(&warm), fleets[1].acquire(&warm)).await;
            assert_eq!(a.unwrap().token(), b.unwrap().token());
        }
        FlawedLock { flaw, fleets, calls: AtomicUsize::new(0), kept: Mutex::default() }
    }

    /// The fleet for one more call, and the name of the resource in it.
    fn call(&self, resource: &Resource) -> (&Redlock, Resource) {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let fleet = &self.fleets[if self.flaw == Flaw::EqualTokens { call % 2 } else { 0 }];
        match self.flaw {
            Flaw::IgnoresNames => (fleet, Resource::new(resource.as_str().to_lowercase()).unwrap()),
            _ => (fleet, resource.clone()),
        }
    }
}

/// Keeps the lease that a cancelled caller would have had.
struct Guard<'a>(&'a FlawedLock, Option<Lease>);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.kept.lock().unwrap().extend(self.1.take());
    }
}

type Acquiring<'a> = BoxFuture<'a, Result<Lease, AcquireError>>;
type Sharing<'a> = BoxFuture<'a, Result<SharedLease, AcquireError>>;

impl Lock for FlawedLock {
    fn acquire<'a>(&'a self, resource: &'a Resource) -> Acquiring<'a> {
        Box::pin(async move {
            if self.flaw == Flaw::DoesNotWait {
                return self.try_acquire(resource).await;
            }
            if self.flaw == Flaw::StarvesWriters {
                loop {
                    match self.try_acquire(resource).await {
                        Err(AcquireError::Held { .. }) => sleep(Duration::from_millis(20)).await,
                        outcome => return outcome,
                    }
                }
            }
            let (fleet, name) = self.call(resource);
            let mut guard = Guard(self, Some(fleet.acquire(&name).await?));
            if self.flaw == Flaw::LeavesDroppedLocks {
                sleep(Duration::from_millis(1)).await;
            }
            Ok(guard.1.take().unwrap())
        })
    }

    fn try_acquire<'a>(&'a self, resource: &'a Resource) -> Acquiring<'a> {
        Box::pin(async move {
            let (fleet, name) = self.call(resource);
            match fleet.try_acquire(&name).await {
                Err(AcquireError::Held { .. }) if self.flaw == Flaw::GrantsWhatIsHeld => {
                    let number = self.calls.load(Ordering::SeqCst);
                    let other = Resource::new(format!("{resource}/{number}")).unwrap();
                    fleet.try_acquire(&other).await
                }
                outcome => outcome,
            }
        })
    }

    fn acquire_shared<'a>(&'a self, resource: &'a Resource) -> Sharing<'a> {
        self.try_acquire_shared(resource)
    }

    fn try_acquire_shared<'a>(&'a self, resource: &'a Resource) -> Sharing<'a> {
        Box::pin(async move {
            let (fleet, mut name) = self.call(resource);
            if self.flaw == Flaw::SharesAnother {
                name = Resource::new(format!("{resource}/shared")).unwrap();
            }
            fleet.acquire_shared(&name).await
        })
    }

    // No contract asks for these.

    fn health(&self) -> BoxFuture<'_, Health> {
        unreachable!()
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        unreachable!()
    }

    fn with_ttl(&self, _: Duration) -> Result<Arc<dyn Lock>, BuildError> {
        unreachable!()
    }

    fn with_wait(&self, _: Duration) -> Result<Arc<dyn Lock>, BuildError> {
        unreachable!()
    }

    fn with_lock_at_least_for(&self, _: Duration) -> Result<Arc<dyn Lock>, BuildError> {
        unreachable!()
    }

    fn acquire_any<'a>(&'a self, _: &'a [Resource]) -> Acquiring<'a> {
        unreachable!()
    }

    fn acquire_all<'a>(
        &'a self,
        _: &'a [Resource],
    ) -> BoxFuture<'a, Result<LeaseSet, AcquireError>> {
        unreachable!()
    }
}

#[tokio::test(start_paused = true)]
async fn flawed_locks_are_found_out() {
    for (flaw, case) in [
        (Flaw::EqualTokens, "acquire after"),
        (Flaw::GrantsWhatIsHeld, "try_acquire what is held"),
        (Flaw::DoesNotWait, "acquire wait: Held"),
        (Flaw::IgnoresNames, "while others are held"),
        (Flaw::LeavesDroppedLocks, "polls of an acquisition that was dropped"),
        (Flaw::SharesAnother, "share after"),
        (Flaw::StarvesWriters, "acquire shared/turns: no answer"),
    ] {
        let lock = FlawedLock::new(flaw).await;
        let breach = match flaw {
            Flaw::SharesAnother | Flaw::StarvesWriters => breach(shared_contract(&lock)).await,
            _ => breach(lock_contract(&lock)).await,
        };
        assert!(breach.contains(case), "{flaw:?}: {breach}");
    }
}

#[tokio::test(start_paused = true)]
async fn leases_that_are_renewed_do_not_lapse() {
    let clock = TokioClock::new();
    let redlock = Redlock::builder().nodes(nodes(&clock)).clock(clock).build().unwrap();
    let breach = breach(lapse_contract(&redlock)).await;
    assert!(breach.contains("lost() of a lease that is not renewed"), "{breach}");
}
