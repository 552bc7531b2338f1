use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use fencing::lock::{Lock, Loss};
use futures_util::future::{join, join_all};
use tokio::time::sleep;

use super::{POLLS, acquire, free, poll, release};
use crate::{answered, resource};

pub async fn frees(lock: &impl Lock) {
    let resource = resource("free");
    release(acquire(lock, &resource).await).await;
    free(lock, &resource, "after a release").await;
    drop(acquire(lock, &resource).await);
    free(lock, &resource, "after a drop").await;
    // After its first poll a release goes on without its future.
    poll(1, acquire(lock, &resource).await.release()).await;
    free(lock, &resource, "after a release was polled once").await
}

pub async fn cancel(lock: &impl Lock) {
    let resource = resource("cancel");
    for polls in 0..POLLS {
        for waits in [true, false] {
            match waits {
                true => poll(polls, lock.acquire(&resource)).await,
                false => poll(polls, lock.try_acquire(&resource)).await,
            }
            let case = format!("after {polls} polls of an acquisition that was dropped");
            free(lock, &resource, &case).await;
        }
    }
}

pub async fn loss(lock: &impl Lock) {
    let resource = resource("loss");
    for dropped in [false, true] {
        let lease = acquire(lock, &resource).await;
        let token = lease.token();
        let mut early = pin!(lease.lost());
        let pending = poll_fn(|context| Poll::Ready(early.as_mut().poll(context).is_pending()));
        assert!(pending.await, "lost() of a lease that lasts: {token:?}");
        let awaiters = [lease.lost(), lease.lost(), lease.lost()];
        let case = if dropped {
            drop(lease);
            "lost() of a dropped lease"
        } else {
            release(lease).await;
            "lost() of a released lease"
        };
        reported(case, join(early, join_all(awaiters)), Loss::Released).await;
    }
}

/// Checks that each awaiter learns of this loss.
pub async fn reported(case: &str, awaiters: impl Future<Output = (Loss, Vec<Loss>)>, loss: Loss) {
    let (first, mut all) = answered(case, awaiters).await;
    all.push(first);
    assert!(all.iter().all(|reported| *reported == loss), "{case}: {all:?}");
}

pub async fn work(lock: &impl Lock) {
    let lease = acquire(lock, &resource("work")).await;
    assert_eq!(lease.run(async { 1 }).await, Ok(1), "run what is ready");
    let moment = lease.run(sleep(Duration::from_millis(10))).await;
    assert_eq!(moment, Ok(()), "run what takes a moment");
    poll(1, lease.run(std::future::pending::<()>())).await;
    let left = lease.valid_for();
    assert!(!left.is_zero(), "the validity after work was dropped: {left:?}");
    release(lease).await
}
