use std::future::poll_fn;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::time::{sleep, timeout};

use super::{Breach, NAMES, PATIENCE, Rule, resource};
use crate::lock::{AcquireError, Lease, Lock, Loss, Released};
use crate::{Resource, Token};

/// How often an acquisition is dropped, each time one poll later.
const POLLS: usize = 40;

/// Whether a lock service keeps the contract of [`Lock`].
///
/// Nobody else may use it meanwhile; it must wait for 10 s at least, and its TTL must be
/// longer than a second, so that what is free is not mistaken for what has expired.
/// How a lease ends by itself is for [`lapse_contract`](super::lapse_contract).
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
/// The first [`Breach`].
pub async fn lock_contract(lock: &impl Lock) -> Result<(), Breach> {
    tokens_grow(lock).await?;
    one_holder(lock).await?;
    apart(lock).await?;
    frees(lock).await?;
    cancel(lock).await?;
    waits(lock).await?;
    concurrent(lock).await?;
    loss(lock).await?;
    work(lock).await
}

/// Acquires what is or becomes free.
pub(super) async fn acquire(lock: &impl Lock, resource: &Resource) -> Result<Lease, Breach> {
    let case = || format!("acquire {resource}");
    match timeout(PATIENCE, lock.acquire(resource)).await {
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

/// What was released a moment ago may take that moment.
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

async fn tokens_grow(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("tokens")?;
    let mut last: Option<Token> = None;
    for _ in 0..20 {
        let lease = acquire(lock, &resource).await?;
        let token = lease.token();
        Rule::TokensGrow.holds(Some(token) > last, format!("acquire after {last:?}"), &token)?;
        last = Some(token);
        release(lease).await?;
    }
    Ok(())
}

async fn one_holder(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("held")?;
    let lease = acquire(lock, &resource).await?;
    Rule::Work.same("the resource of a lease", lease.resource(), &resource)?;
    let left = lease.valid_for();
    Rule::LossTold.holds(!left.is_zero(), "the validity of a lease", &left)?;
    for _ in 0..3 {
        let found = lock.try_acquire(&resource).await;
        let right = matches!(&found, Err(AcquireError::Held { resource: named, retry_after })
            if *named == resource && !retry_after.is_zero());
        Rule::OneHolder.holds(right, "try_acquire what is held", &found)?;
    }
    release(lease).await
}

async fn apart(lock: &impl Lock) -> Result<(), Breach> {
    let names: Vec<Resource> = NAMES.into_iter().map(resource).collect::<Result<_, _>>()?;
    let mut leases = Vec::new();
    for name in &names {
        match lock.try_acquire(name).await {
            Ok(lease) => leases.push(lease),
            Err(error) => {
                let case = format!("try_acquire {name} while others are held");
                return Err(Rule::NamesApart.breach(case, &error));
            }
        }
    }
    for lease in leases {
        release(lease).await?;
    }
    Ok(())
}

async fn frees(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("free")?;
    release(acquire(lock, &resource).await?).await?;
    free(lock, Rule::Frees, &resource, "after a release").await?;
    drop(acquire(lock, &resource).await?);
    free(lock, Rule::Frees, &resource, "after a drop").await?;
    // Polled once, a release goes on without its future.
    poll(1, acquire(lock, &resource).await?.release()).await;
    free(lock, Rule::Frees, &resource, "after a release was polled once").await
}

/// Polls a future this often at most, and drops it.
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

async fn cancel(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("cancel")?;
    for polls in 0..POLLS {
        for waits in [true, false] {
            match waits {
                true => poll(polls, lock.acquire(&resource)).await,
                false => poll(polls, lock.try_acquire(&resource)).await,
            }
            let case = format!("after {polls} polls of an acquisition that was dropped");
            free(lock, Rule::CancelSafe, &resource, &case).await?;
        }
    }
    Ok(())
}

async fn waits(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("wait")?;
    let first = acquire(lock, &resource).await?;
    let (token, freed) = (first.token(), AtomicBool::new(false));
    let holder = async {
        for _ in 0..20 {
            sleep(Duration::from_millis(10)).await;
        }
        freed.store(true, Ordering::SeqCst);
        release(first).await
    };
    let waiter = async {
        let lease = acquire(lock, &resource).await?;
        Rule::Waits.holds(freed.load(Ordering::SeqCst), "acquire what is held", &lease)?;
        Rule::TokensGrow.holds(lease.token() > token, format!("acquire after {token}"), &lease)?;
        release(lease).await
    };
    let (held, waited) = join(holder, waiter).await;
    held.and(waited)
}

/// Many at once: never two inside, and tokens grow in the order of the grants.
async fn concurrent(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("concurrent")?;
    let (inside, last) = (AtomicUsize::new(0), Mutex::new(None::<Token>));
    let clients = (0..12).map(|_| async {
        let lease = acquire(lock, &resource).await?;
        let others = inside.fetch_add(1, Ordering::SeqCst);
        let before = last.lock().unwrap_or_else(PoisonError::into_inner).replace(lease.token());
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        inside.fetch_sub(1, Ordering::SeqCst);
        Rule::OneHolder.same("others inside, of 12 at once", &others, &0)?;
        let grew = Some(lease.token()) > before;
        Rule::TokensGrow.holds(grew, format!("granted next after {before:?}"), &lease.token())?;
        release(lease).await
    });
    join_all(clients).await.into_iter().collect()
}

async fn loss(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("loss")?;
    for dropped in [false, true] {
        let lease = acquire(lock, &resource).await?;
        let token = lease.token();
        let mut early = pin!(lease.lost());
        let pending = poll_fn(|context| Poll::Ready(early.as_mut().poll(context).is_pending()));
        Rule::LossTold.holds(pending.await, "lost() of a lease that lasts", &token)?;
        let awaiters = [lease.lost(), lease.lost(), lease.lost()];
        let case = if dropped {
            drop(lease);
            "lost() of a dropped lease"
        } else {
            release(lease).await?;
            "lost() of a released lease"
        };
        told(case, join(early, join_all(awaiters)), Loss::Released).await?;
    }
    Ok(())
}

/// Each awaiter learns of this loss.
pub(super) async fn told(
    case: &str,
    awaiters: impl Future<Output = (Loss, Vec<Loss>)>,
    loss: Loss,
) -> Result<(), Breach> {
    match timeout(PATIENCE, awaiters).await {
        Ok((first, others)) => {
            let all: Vec<Loss> = std::iter::once(first).chain(others).collect();
            Rule::LossTold.holds(all.iter().all(|told| *told == loss), case, &all)
        }
        Err(_) => Err(Rule::LossTold.breach(case, &"no answer")),
    }
}

async fn work(lock: &impl Lock) -> Result<(), Breach> {
    let lease = acquire(lock, &resource("work")?).await?;
    let found = lease.run(async { 1 }).await;
    Rule::Work.same("run what is ready", &found, &Ok(1))?;
    let output = async {
        sleep(Duration::from_millis(10)).await;
        2
    };
    let found = lease.run(output).await;
    Rule::Work.same("run what takes a moment", &found, &Ok(2))?;
    poll(1, lease.run(std::future::pending::<()>())).await;
    let left = lease.valid_for();
    Rule::Work.holds(!left.is_zero(), "the validity after work was dropped", &left)?;
    release(lease).await
}
