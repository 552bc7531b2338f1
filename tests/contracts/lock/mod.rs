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
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use fencing::Resource;
use fencing::lock::{AcquireError, Lease, Lock, Released};
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

async fn release(lease: Lease) {
    let case = format!("release {}", lease.resource());
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

/// Polls a future at most this often, and drops it.
async fn poll<F: Future>(polls: usize, future: F) {
    let mut future = pin!(future);
    let mut left = polls;
    let enough = poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Pending if left > 0 => Poll::Pending,
            _ => Poll::Ready(()),
        }
    });
    enough.await;
}
