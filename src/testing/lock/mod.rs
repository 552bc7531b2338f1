mod at_least;
mod end;
mod grant;
mod lapse;
mod several;
mod shared;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use fencing_protocol::Resource;
use tokio::time::{sleep, timeout};

use super::{ANSWER_WITHIN, Breach, Rule};
use crate::lock::{Lease, Lock, Released};

pub use lapse::lapse_contract;
pub use shared::shared_contract;

/// Checks that a lock service keeps the contract of [`Lock`].
///
/// No other client may use it meanwhile. It must wait for 10 s at least. Its TTL must be longer
/// than a second, so that the suite can tell a lock that was freed from one that has expired.
/// [`lapse_contract`] checks how a lease ends by itself, and [`shared_contract`] the shared mode.
///
/// ```
/// use fencing::Redlock;
/// use fencing::lock::redlock::MemoryNode;
/// use fencing::testing::lock_contract;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let nodes = ["a", "b", "c"].map(MemoryNode::new);
///     Ok(lock_contract(&Redlock::builder().nodes(nodes).build()?).await?)
/// }
/// ```
///
/// # Errors
/// Returns the first [`Breach`].
pub async fn lock_contract(lock: &impl Lock) -> Result<(), Breach> {
    grant::tokens_grow(lock).await?;
    grant::one_holder(lock).await?;
    grant::apart(lock).await?;
    end::frees(lock).await?;
    end::cancel(lock).await?;
    grant::waits(lock).await?;
    grant::concurrent(lock).await?;
    end::loss(lock).await?;
    end::work(lock).await?;
    at_least::closed(lock).await?;
    several::several(lock).await
}

/// Acquires a lock that is or becomes free.
pub(super) async fn acquire(lock: &impl Lock, resource: &Resource) -> Result<Lease, Breach> {
    let case = || format!("acquire {resource}");
    match timeout(ANSWER_WITHIN, lock.acquire(resource)).await {
        Ok(Ok(lease)) => Ok(lease),
        Ok(Err(error)) => Err(Rule::Answers.breach(case(), &error)),
        Err(_) => Err(Rule::Answers.breach(case(), &"no answer")),
    }
}

async fn release(lease: Lease) -> Result<(), Breach> {
    let case = format!("release {}", lease.resource());
    let found = lease.release().await;
    Rule::Frees.same(case, &found, &Ok(Released::Released))
}

/// Checks that a lock is free. One that was released a moment ago may take that moment.
async fn free(lock: &impl Lock, rule: Rule, resource: &Resource, case: &str) -> Result<(), Breach> {
    let mut found = None;
    for _ in 0..20 {
        match lock.try_acquire(resource).await {
            Ok(lease) => return release(lease).await,
            Err(error) => found = Some(error),
        }
        sleep(Duration::from_millis(10)).await;
    }
    Err(rule.breach(format!("try_acquire {resource} {case}"), &found))
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
