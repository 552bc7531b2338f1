//! Jobs whose time was over before the task of their lane came to them.

use std::pin::pin;
use std::time::Duration;

use fencing::Resource;
use fencing::lock::{AcquireError, RenewError};
use fencing_protocol::Fault;
use futures_util::FutureExt;

use crate::driver::fleet::{BUDGET, Fleet, ran, resource, settle};

/// The machine stands still between the submission and the sending. A re-admission relies on it that
/// what was asked is over after two budgets.
#[tokio::test(start_paused = true)]
async fn an_acquire_past_its_time_is_not_sent() {
    let fleet = Fleet::started().await;
    let redlock = fleet.connected().await;
    let resource = resource();
    let mut attempt = Box::pin(redlock.try_acquire(&resource));
    // It is submitted, and no lane has run since.
    assert!((&mut attempt).now_or_never().is_none());
    tokio::time::advance(BUDGET).await;
    settle().await;
    for faults in &fleet.faults {
        assert_eq!(ran(faults), [""; 0]);
    }
    // This client was late, and no node: it asks again, and nothing of the first is sent behind that.
    let lease = attempt.await.unwrap();
    settle().await;
    for faults in &fleet.faults {
        assert_eq!(ran(faults), ["release", "acquire"]);
    }
    drop(lease);
}

/// A renewal is not made again: the caller learns that no node is to blame.
#[tokio::test(start_paused = true)]
async fn a_renewal_past_its_time_is_not_sent_and_blames_no_node() {
    let fleet = Fleet::started().await;
    let redlock = fleet.connected().await;
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    settle().await;
    let mut renewal = Box::pin(lease.renew());
    assert!((&mut renewal).now_or_never().is_none());
    tokio::time::advance(BUDGET).await;
    let Err(RenewError::Failed { causes, .. }) = renewal.await else { panic!("renewed") };
    assert!(causes.len() >= 3, "{causes:?}");
    assert!(causes.iter().all(|it| it.cause == Fault::Unsent && it.cause.is_own()), "{causes:?}");
    for faults in &fleet.faults {
        assert_eq!(ran(faults), ["acquire"]);
    }
}

/// The same for several locks at once.
#[tokio::test(start_paused = true)]
async fn several_at_once_past_their_time_are_asked_for_again() {
    let fleet = Fleet::started().await;
    let redlock = fleet.connected().await.with_wait(Duration::ZERO).unwrap();
    let several = ["a", "b"].map(|name| Resource::new(name).unwrap());
    let mut attempt = Box::pin(redlock.acquire_all(&several));
    assert!((&mut attempt).now_or_never().is_none());
    tokio::time::advance(BUDGET).await;
    let lease = attempt.await.unwrap();
    assert_eq!(lease.sequencers().len(), 2);
}

/// The machine stands still after the nodes have granted. By now one of them may have forgotten its grant and
/// be back: a re-admission relies on it that no answer counts after two budgets.
#[tokio::test(start_paused = true)]
async fn a_vote_past_its_time_does_not_count() {
    let fleet = Fleet::started().await;
    let redlock = fleet.connected().await;
    let resource = resource();
    let mut attempt = Box::pin(redlock.try_acquire(&resource));
    assert!((&mut attempt).now_or_never().is_none());
    settle().await;
    for faults in &fleet.faults {
        assert_eq!(ran(faults), ["acquire"]);
    }
    tokio::time::advance(2 * BUDGET + Duration::from_millis(1)).await;
    // It was this client that stood still, so it asks again. What was granted is taken back before that.
    let lease = attempt.await.unwrap();
    settle().await;
    for faults in &fleet.faults {
        assert_eq!(ran(faults), ["acquire", "release", "acquire"]);
    }
    drop(lease);
}

/// What takes something back is sent however late it is.
#[tokio::test(start_paused = true)]
async fn a_release_past_its_time_is_sent() {
    let fleet = Fleet::started().await;
    let redlock = fleet.connected().await;
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    settle().await;
    let mut release = pin!(lease.release());
    assert!((&mut release).now_or_never().is_none());
    tokio::time::advance(BUDGET).await;
    settle().await;
    for faults in &fleet.faults {
        assert_eq!(ran(faults), ["acquire", "release"]);
    }
    assert!(redlock.try_acquire(&resource()).await.is_ok());
}

/// A client that learns that another owner holds the lock has nothing there to take back.
#[tokio::test(start_paused = true)]
async fn a_node_that_refuses_is_sent_no_release() {
    let fleet = Fleet::started().await;
    let (holder, other) = (fleet.connected().await, fleet.connected().await);
    let lease = holder.try_acquire(&resource()).await.unwrap();
    assert!(other.try_acquire(&resource()).await.is_err());
    settle().await;
    // A majority decides: the answers of the others may not have been seen.
    let spared = fleet.faults.iter().filter(|faults| ran(faults) == ["acquire", "acquire"]);
    assert!(spared.count() >= 2);
    drop(lease);
}

/// A client with more attempts under way than it can make says that, and not that nodes are down.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_gets_no_turn_is_neither_held_nor_without_a_quorum() {
    let fleet = Fleet::started().await;
    let ttl = BUDGET * 4;
    let redlock = fleet.service().ttl(ttl).drift(BUDGET / 50).build().unwrap();
    fleet.faults.iter().for_each(|faults| faults.delay_replies(BUDGET / 2));
    let attempts = (0..2000).map(|number| {
        let redlock = redlock.clone();
        let resource = Resource::new(format!("{number}")).unwrap();
        tokio::spawn(async move { redlock.try_acquire(&resource).await.map(std::mem::forget) })
    });
    let mut overloaded = 0;
    for attempt in attempts.collect::<Vec<_>>() {
        match attempt.await.unwrap() {
            Ok(()) => {}
            Err(AcquireError::Overloaded { .. }) => overloaded += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(overloaded > 1000, "{overloaded}");
}
