//! Lock services that break one rule each.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencing::lock::{AcquireError, BuildError, Health, Lease, LeaseSet, Lock, SharedLease};
use fencing::{Redlock, Resource};
use futures_util::future::{BoxFuture, join};

use crate::lock::{lapse_contract, lock_contract, shared_contract};
use crate::{breach, nodes};
use support::clock::TokioClock;

/// Two services that know nothing of each other, used in turn.
#[derive(Debug)]
struct TwoFleets {
    fleets: [Redlock; 2],
    next: AtomicUsize,
}

impl TwoFleets {
    async fn start() -> TwoFleets {
        let clock = TokioClock::new();
        let fleet =
            || Redlock::builder().nodes(nodes(&clock)).clock(clock.clone()).build().unwrap();
        let fleets = [fleet(), fleet()];
        // Both begin within the same second, and so with the same era.
        let warm = Resource::new("warm").unwrap();
        let (a, b) = join(fleets[0].acquire(&warm), fleets[1].acquire(&warm)).await;
        assert_eq!(a.unwrap().token(), b.unwrap().token());
        TwoFleets { fleets, next: AtomicUsize::new(0) }
    }

    fn turn(&self) -> &Redlock {
        &self.fleets[self.next.fetch_add(1, Ordering::SeqCst) % 2]
    }
}

type Acquiring<'a> = BoxFuture<'a, Result<Lease, AcquireError>>;
type Sharing<'a> = BoxFuture<'a, Result<SharedLease, AcquireError>>;

/// What none of the contracts asks for.
macro_rules! and_the_rest {
    () => {
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
    };
}

macro_rules! and_no_sharing {
    () => {
        fn acquire_shared<'a>(&'a self, _: &'a Resource) -> Sharing<'a> {
            unreachable!()
        }

        fn try_acquire_shared<'a>(&'a self, _: &'a Resource) -> Sharing<'a> {
            unreachable!()
        }
    };
}

impl Lock for TwoFleets {
    and_the_rest!();
    and_no_sharing!();

    fn acquire<'a>(&'a self, resource: &'a Resource) -> Acquiring<'a> {
        Box::pin(async move { self.turn().acquire(resource).await })
    }

    fn try_acquire<'a>(&'a self, resource: &'a Resource) -> Acquiring<'a> {
        Box::pin(async move { self.turn().try_acquire(resource).await })
    }
}

#[tokio::test(start_paused = true)]
async fn equal_tokens_are_found_out() {
    let breach = breach(lock_contract(&TwoFleets::start().await)).await;
    assert!(breach.contains("acquire after"), "{breach}");
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Flaw {
    GrantsWhatIsHeld,
    DoesNotWait,
    IgnoresNames,
    LeavesDroppedLocks,
}

#[derive(Debug)]
struct FlawedLock {
    flaw: Flaw,
    inner: Redlock,
    hidden: AtomicUsize,
    kept: Mutex<Vec<Lease>>,
}

impl FlawedLock {
    fn name(&self, resource: &Resource) -> Resource {
        if self.flaw == Flaw::IgnoresNames {
            return Resource::new(resource.as_str().to_lowercase()).unwrap();
        }
        resource.clone()
    }
}

/// Keeps the lease that a cancelled caller would have had.
struct Guard<'a>(&'a FlawedLock, Option<Lease>);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.kept.lock().unwrap().extend(self.1.take());
    }
}

impl Lock for FlawedLock {
    and_the_rest!();
    and_no_sharing!();

    fn acquire<'a>(&'a self, resource: &'a Resource) -> Acquiring<'a> {
        Box::pin(async move {
            if self.flaw == Flaw::DoesNotWait {
                return self.inner.try_acquire(&self.name(resource)).await;
            }
            let lease = self.inner.acquire(&self.name(resource)).await?;
            if self.flaw == Flaw::LeavesDroppedLocks {
                let mut guard = Guard(self, Some(lease));
                tokio::time::sleep(Duration::from_millis(1)).await;
                return Ok(guard.1.take().unwrap());
            }
            Ok(lease)
        })
    }

    fn try_acquire<'a>(&'a self, resource: &'a Resource) -> Acquiring<'a> {
        Box::pin(async move {
            match self.inner.try_acquire(&self.name(resource)).await {
                Err(AcquireError::Held { .. }) if self.flaw == Flaw::GrantsWhatIsHeld => {
                    let number = self.hidden.fetch_add(1, Ordering::SeqCst);
                    let other = Resource::new(format!("{resource}/{number}")).unwrap();
                    self.inner.try_acquire(&other).await
                }
                outcome => outcome,
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn flawed_locks_are_found_out() {
    for (flaw, case) in [
        (Flaw::GrantsWhatIsHeld, "try_acquire what is held"),
        (Flaw::DoesNotWait, "acquire wait: Held"),
        (Flaw::IgnoresNames, "while others are held"),
        (Flaw::LeavesDroppedLocks, "polls of an acquisition that was dropped"),
    ] {
        let clock = TokioClock::new();
        let inner = Redlock::builder().nodes(nodes(&clock)).clock(clock).build().unwrap();
        let (hidden, kept) = (AtomicUsize::new(0), Mutex::default());
        let lock = FlawedLock { flaw, inner, hidden, kept };
        let breach = breach(lock_contract(&lock)).await;
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

#[derive(Clone, Copy, PartialEq, Debug)]
enum SharedFlaw {
    /// Each who shares it holds a lock of its own.
    SharesAnother,
    /// It never says that it waits, and asks again and again.
    StarvesWhoWaits,
}

#[derive(Debug)]
struct FlawedSharing(SharedFlaw, Redlock);

impl Lock for FlawedSharing {
    and_the_rest!();

    fn acquire<'a>(&'a self, resource: &'a Resource) -> Acquiring<'a> {
        Box::pin(async move {
            if self.0 != SharedFlaw::StarvesWhoWaits {
                return self.1.acquire(resource).await;
            }
            loop {
                match self.1.try_acquire(resource).await {
                    Err(AcquireError::Held { .. }) => {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    outcome => return outcome,
                }
            }
        })
    }

    fn try_acquire<'a>(&'a self, resource: &'a Resource) -> Acquiring<'a> {
        Box::pin(self.1.try_acquire(resource))
    }

    fn acquire_shared<'a>(&'a self, resource: &'a Resource) -> Sharing<'a> {
        self.try_acquire_shared(resource)
    }

    fn try_acquire_shared<'a>(&'a self, resource: &'a Resource) -> Sharing<'a> {
        Box::pin(async move {
            let other = Resource::new(format!("{resource}/shared")).unwrap();
            match self.0 {
                SharedFlaw::SharesAnother => self.1.acquire_shared(&other).await,
                SharedFlaw::StarvesWhoWaits => self.1.acquire_shared(resource).await,
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn flawed_sharing_is_found_out() {
    for (flaw, case) in [
        (SharedFlaw::SharesAnother, "share after"),
        (SharedFlaw::StarvesWhoWaits, "acquire shared/turns: no answer"),
    ] {
        let clock = TokioClock::new();
        let inner = Redlock::builder().nodes(nodes(&clock)).clock(clock).build().unwrap();
        let breach = breach(shared_contract(&FlawedSharing(flaw, inner))).await;
        assert!(breach.contains(case), "{flaw:?}: {breach}");
    }
}
