use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::time::{sleep, timeout};

use super::{acquire, free, poll, release};
use crate::lock::{Lock, Loss};
use crate::testing::{ANSWER_WITHIN, Breach, Rule, resource};

/// How often the suite drops an acquisition, each time one poll later.
const POLLS: usize = 40;

pub(super) async fn frees(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("free")?;
    release(acquire(lock, &resource).await?).await?;
    free(lock, Rule::Frees, &resource, "after a release").await?;
    drop(acquire(lock, &resource).await?);
    free(lock, Rule::Frees, &resource, "after a drop").await?;
    // After its first poll a release goes on without its future.
    poll(1, acquire(lock, &resource).await?.release()).await;
    free(lock, Rule::Frees, &resource, "after a release was polled once").await
}

pub(super) async fn cancel(lock: &impl Lock) -> Result<(), Breach> {
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

pub(super) async fn loss(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("loss")?;
    for dropped in [false, true] {
        let lease = acquire(lock, &resource).await?;
        let token = lease.token();
        let mut early = pin!(lease.lost());
        let pending = poll_fn(|context| Poll::Ready(early.as_mut().poll(context).is_pending()));
        Rule::LossReported.holds(pending.await, "lost() of a lease that lasts", &token)?;
        let awaiters = [lease.lost(), lease.lost(), lease.lost()];
        let case = if dropped {
            drop(lease);
            "lost() of a dropped lease"
        } else {
            release(lease).await?;
            "lost() of a released lease"
        };
        reported(case, join(early, join_all(awaiters)), Loss::Released).await?;
    }
    Ok(())
}

/// Checks that each awaiter learns of this loss.
pub(super) async fn reported(
    case: &str,
    awaiters: impl Future<Output = (Loss, Vec<Loss>)>,
    loss: Loss,
) -> Result<(), Breach> {
    match timeout(ANSWER_WITHIN, awaiters).await {
        Ok((first, others)) => {
            let all: Vec<Loss> = std::iter::once(first).chain(others).collect();
            Rule::LossReported.holds(all.iter().all(|reported| *reported == loss), case, &all)
        }
        Err(_) => Err(Rule::LossReported.breach(case, &"no answer")),
    }
}

pub(super) async fn work(lock: &impl Lock) -> Result<(), Breach> {
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
