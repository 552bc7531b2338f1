//! What each [`Lock`] promises.
//!
//! Suites take two services on the same servers, as two processes have them, where both modes or many clients meet. No
//! other client may use their resources meanwhile. A service must wait for 10 s at least. Its TTL must be
//! longer than 7 s, so that the suites can tell a lock that was freed from one that has expired.

mod end;
mod grant;
mod operator;
mod resume;
mod several;
mod shared;

use std::fmt::Debug;
use std::future::pending;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fencing::lock::{AcquireError, Lease, Lock, Loss, Released, SharedLease};
use fencing::{Resource, Token};
use futures_util::future::{join, join_all};
use support::waiting::{polled, until};
use tokio::time::{Instant, sleep};

use crate::{ANSWER_WITHIN, answered, resource};

pub use end::{delay_contract, lapse_contract};
pub use grant::line_contract;
pub use operator::{ONE, names_contract, operator_contract};
pub use resume::{early_release_contract, resume_contract};
pub use shared::{mixed_contract, shared_contract};

/// A suite drops an acquisition after this many polls at most: more than any takes.
const POLLS: usize = 20;

/// Checks a lock service, but for the shared mode and for leases that end by themselves.
pub async fn lock_contract(lock: &dyn Lock, other: &dyn Lock) {
    grant::tokens_grow(lock).await;
    grant::one_holder(lock, other).await;
    grant::apart(lock).await;
    let free = [resource("free")];
    end::ends(lock, &free, async || acquire(lock, &free[0]).await).await;
    end::cancel(lock).await;
    grant::waits(lock, other).await;
    grant::concurrent([lock, other]).await;
    end::work(lock).await;
    end::stays_closed(lock).await;
    several::several(lock, other).await;
}

/// Acquires a lock that is or becomes free.
async fn acquire(lock: &dyn Lock, resource: &Resource) -> Lease {
    let acquired = answered(format!("acquire {resource}"), lock.acquire(resource)).await;
    acquired.unwrap_or_else(|error| panic!("acquire {resource}: {error:?}"))
}

async fn share(lock: &dyn Lock, resource: &Resource) -> SharedLease {
    let acquired = answered(format!("share {resource}"), lock.acquire_shared(resource)).await;
    acquired.unwrap_or_else(|error| panic!("share {resource}: {error:?}"))
}

async fn release<K>(lease: Lease<K>) {
    let case = format!("release {lease:?}");
    assert_eq!(lease.release().await, Ok(Released::Released), "{case}");
}

/// Checks that a lock is free. One that was released a moment ago may take that moment.
async fn free(lock: &dyn Lock, resource: &Resource, case: &str) {
    let start = Instant::now();
    loop {
        match lock.try_acquire(resource).await {
            Ok(lease) => return release(lease).await,
            Err(error) => {
                // A lock that is left behind must not look free when it expires.
                let limit =
                    if matches!(error, AcquireError::Held { .. }) { Duration::from_secs(7) } else { ANSWER_WITHIN };
                assert!(start.elapsed() < limit, "try_acquire {resource} {case}: {error:?}");
            }
        }
        sleep(Duration::from_millis(10)).await;
    }
}

fn refused<L: Debug>(found: &Result<L, AcquireError>, resource: &Resource, case: &str) {
    let held = matches!(found, Err(AcquireError::Held { resource: named, retry_after, .. })
        if named == resource && !retry_after.is_zero());
    assert!(held, "{case}: {found:?}");
}

/// Drops an acquisition after each number of polls, with requests unsent or under way, and checks that these are free.
async fn dropped<F: Future>(lock: &dyn Lock, resources: &[Resource], what: &str, acquire: impl Fn() -> F) {
    for (polls, pause) in (0..POLLS).flat_map(|polls| [(polls, 0), (polls, 1)]) {
        {
            let mut acquiring = pin!(acquire());
            let _acquired = polled(&mut acquiring, polls).await;
            sleep(Duration::from_millis(pause)).await;
        }
        for resource in resources {
            free(lock, resource, &format!("after {polls} polls of {what} that was dropped")).await;
        }
    }
}

/// Acquires beside a holder, which releases a moment later, and checks that it was not granted before.
async fn after<T: Debug>(release: impl Future, acquire: impl Future<Output = T>) -> T {
    let freed = AtomicBool::new(false);
    let holder = async {
        sleep(Duration::from_millis(200)).await;
        freed.store(true, Ordering::SeqCst);
        release.await
    };
    let waiter = async {
        let acquired = acquire.await;
        assert!(freed.load(Ordering::SeqCst), "acquire what is held: {acquired:?}");
        acquired
    };
    join(holder, waiter).await.1
}

/// Who holds a lock at the moment, and which tokens there have been.
#[derive(Default)]
struct Inside(Mutex<State>);

#[derive(Default)]
struct State {
    /// Those who hold it alone, and those who share it.
    holders: [u32; 2],
    /// The largest token so far, and the largest of one that held the lock alone.
    largest: [Option<Token>; 2],
}

impl Inside {
    /// Stays for a moment under a lease just granted: who holds the lock alone is alone, and tokens keep their order.
    async fn visit(&self, shares: bool, token: Token) {
        {
            let State { holders, largest: [any, alone] } = &mut *self.0.lock().unwrap();
            let (others, before) = if shares { (holders[0], *alone) } else { (holders[0] + holders[1], *any) };
            assert_eq!(others, 0, "others inside, of many at once; shares: {shares}");
            assert!(Some(token) > before, "granted next after {before:?}: {token:?}");
            *any = (*any).max(Some(token));
            *alone = if shares { *alone } else { Some(token) };
            holders[usize::from(shares)] += 1;
        }
        if shares {
            sleep(Duration::from_millis(20)).await;
        }
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        self.0.lock().unwrap().holders[usize::from(shares)] -= 1;
    }
}
