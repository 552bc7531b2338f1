//! What each [`Lock`] promises.
//!
//! No other client may use the service meanwhile. It must wait for 10 s at least. Its TTL must be
//! longer than a second, so that the suites can tell a lock that was freed from one that has expired.

mod at_least;
mod end;
mod grant;
mod lapse;
mod several;
mod shared;

use std::fmt::Debug;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fencing::lock::{AcquireError, Lease, Lock, Released};
use fencing::{Resource, Token};
use futures_util::future::join;
use support::polled::polled;
use tokio::time::{Instant, sleep};

use crate::answered;

pub use lapse::lapse_contract;
pub use shared::shared_contract;

/// How often a suite drops an acquisition, each time one poll later.
const POLLS: usize = 40;

/// Checks a lock service, but for the shared mode and for leases that end by themselves.
pub async fn lock_contract(lock: &impl Lock) {
    grant::tokens_grow(lock).await;
    grant::one_holder(lock).await;
    grant::apart(lock).await;
    end::frees(lock).await;
    end::cancel(lock).await;
    grant::waits(lock).await;
    grant::concurrent(lock).await;
    end::loss(lock).await;
    end::work(lock).await;
    at_least::closed(lock).await;
    several::several(lock).await;
}

/// Acquires a lock that is or becomes free.
async fn acquire(lock: &impl Lock, resource: &Resource) -> Lease {
    let acquired = answered(format!("acquire {resource}"), lock.acquire(resource)).await;
    acquired.unwrap_or_else(|error| panic!("acquire {resource}: {error:?}"))
}

async fn release<K>(lease: Lease<K>) {
    let case = format!("release {lease:?}");
    assert_eq!(lease.release().await, Ok(Released::Released), "{case}");
}

/// Checks that a lock is free. One that was released a moment ago may take that moment.
async fn free(lock: &impl Lock, resource: &Resource, case: &str) {
    let end = Instant::now() + Duration::from_secs(3);
    loop {
        match lock.try_acquire(resource).await {
            Ok(lease) => return release(lease).await,
            Err(error) => assert!(Instant::now() < end, "try_acquire {resource} {case}: {error:?}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Checks that an attempt has found this resource held.
fn refused<L: Debug>(found: &Result<L, AcquireError>, resource: &Resource, case: &str) {
    let held = matches!(found, Err(AcquireError::Held { resource: named, retry_after, .. })
        if named == resource && !retry_after.is_zero());
    assert!(held, "{case}: {found:?}");
}

/// Drops what acquires these after each number of polls, and checks that they are free then.
async fn dropped<F: Future>(
    lock: &impl Lock,
    resources: &[Resource],
    what: &str,
    acquire: impl Fn() -> F,
) {
    for polls in 0..POLLS {
        drop(polled(acquire(), polls).await);
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

/// Who is inside, and the token of the last one.
#[derive(Default)]
struct Inside {
    count: AtomicUsize,
    last: Mutex<Option<Token>>,
}

impl Inside {
    /// Checks that one that was granted the lock is alone for a moment, and that tokens grow in this order.
    async fn visit(&self, token: Token) {
        let others = self.count.fetch_add(1, Ordering::SeqCst);
        let before = self.last.lock().unwrap().replace(token);
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        self.count.fetch_sub(1, Ordering::SeqCst);
        assert_eq!(others, 0, "others inside, of many at once");
        assert!(Some(token) > before, "granted next after {before:?}: {token:?}");
    }
}
