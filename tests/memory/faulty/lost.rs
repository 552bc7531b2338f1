//! Replies that are lost, late or doubled.

use std::time::Duration;

use fencing::lock::{AcquireError, Released};
use fencing_protocol::Fault;

use crate::faulty::fleet::{BUDGET, Fleet, members, ran, resource, settle};

#[tokio::test(start_paused = true)]
async fn a_reply_lost_on_two_nodes_is_won_with_the_others_and_released_everywhere() {
    let fleet = Fleet::started().await;
    let redlock = fleet.connected().await;
    fleet.faults[..2].iter().for_each(|faults| faults.lose_replies(true));
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    assert_eq!(fleet.locked().await, [true; 5]);
    assert_eq!(lease.release().await, Ok(Released::Released));
    settle().await;
    assert_eq!(fleet.locked().await, [false; 5]);
    assert_eq!(ran(&fleet.faults[0]), ["acquire", "release"]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_lost_on_three_nodes_is_no_quorum_and_taken_back_everywhere() {
    let fleet = Fleet::started().await;
    let redlock = fleet.connected().await;
    fleet.faults[..3].iter().for_each(|faults| faults.lose_replies(true));
    let error = redlock.try_acquire(&resource()).await.unwrap_err();
    let AcquireError::NoQuorum { needed: 3, granted: 2, causes, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(causes.len(), 3, "{error}");
    assert!(causes.iter().all(|cause| cause.cause == Fault::TimedOut), "{error}");
    settle().await;
    assert_eq!(fleet.locked().await, [false; 5]);
    // Any other client finds it free, long before the TTL.
    fleet.faults.iter().for_each(|faults| faults.lose_replies(false));
    let start = tokio::time::Instant::now();
    let lease = fleet.connected().await.try_acquire(&resource()).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    lease.release().await.unwrap();
    // And so does the same client, when it has given up on the lost replies.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(redlock.acquire(&resource()).await.is_ok());
    assert_eq!(redlock.health().await.granting, 5);
}

#[tokio::test(start_paused = true)]
async fn replies_that_come_after_the_budget_are_no_votes() {
    let fleet = Fleet::started().await;
    let redlock = fleet.connected().await;
    fleet.faults[..3].iter().for_each(|faults| faults.delay_replies(BUDGET * 2));
    let error = redlock.try_acquire(&resource()).await.unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum { granted: 2, .. }), "{error}");
    tokio::time::sleep(BUDGET * 2).await;
    assert_eq!(fleet.locked().await, [false; 5]);
    fleet.faults.iter().for_each(|faults| faults.heal());
    assert!(redlock.acquire(&resource()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn replies_within_the_budget_are_votes() {
    let fleet = Fleet::started().await;
    let redlock = fleet.connected().await;
    fleet.faults.iter().for_each(|faults| faults.delay_replies(BUDGET / 2));
    let start = tokio::time::Instant::now();
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    assert_eq!(start.elapsed().as_millis(), (BUDGET / 2).as_millis());
    assert_eq!(lease.release().await, Ok(Released::Released));
}

/// A repeated acquire counts once, and a repeated release takes nothing from anybody.
#[tokio::test(start_paused = true)]
async fn requests_that_run_twice_change_nothing() {
    let fleet = Fleet::started().await;
    let redlock = fleet.connected().await;
    let first = redlock.try_acquire(&resource()).await.unwrap().token();
    settle().await;
    fleet.faults.iter().for_each(|faults| faults.repeat(true));
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    assert_eq!(lease.token().get(), first.get() + 1);
    assert_eq!(fleet.locked().await, [true; 5]);
    // The second of two releases finds nothing, which is what the client learns.
    assert_eq!(lease.release().await, Ok(Released::Lapsed));
    let next = redlock.try_acquire(&resource()).await.unwrap();
    assert_eq!(next.token().get(), first.get() + 2);
    assert_eq!(ran(&fleet.faults[0])[2..6], ["acquire", "acquire", "release", "release"]);
}

/// The network repeats a release when the next holder has the lock already.
#[tokio::test(start_paused = true)]
async fn a_release_repeated_late_takes_nothing_from_the_next_holder() {
    use fencing::lock::redlock::Node;
    use fencing_protocol::{Reply, Request};
    let fleet = Fleet::started().await;
    let redlock = fleet.connected().await;
    redlock.try_acquire(&resource()).await.unwrap().release().await.unwrap();
    settle().await;
    let next = redlock.try_acquire(&resource()).await.unwrap();
    for (node, faults) in fleet.nodes.iter().zip(&fleet.faults) {
        let session = node.open(&members()).await.unwrap();
        for (request, _) in faults.log() {
            if matches!(request, Request::Release { .. }) {
                assert_eq!(session.call(request).await, Ok(Reply::NotOwner));
            }
        }
    }
    assert_eq!(fleet.locked().await, [true; 5]);
    assert_eq!(next.release().await, Ok(Released::Released));
}

#[tokio::test(start_paused = true)]
async fn broken_sessions_are_opened_again() {
    let fleet = Fleet::started().await;
    let redlock = fleet.connected().await;
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    fleet.faults.iter().for_each(|faults| faults.break_sessions());
    let _ = lease.release().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(redlock.health().await.granting, 5);
    assert!(redlock.acquire(&resource()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn nodes_that_refuse_are_named_and_come_back() {
    let fleet = Fleet::started().await;
    fleet.faults[..3].iter().for_each(|faults| faults.refuse(true));
    let redlock = fleet.service().build().unwrap();
    let error = redlock.try_acquire(&resource()).await.unwrap_err();
    let AcquireError::NoQuorum { causes, .. } = &error else { panic!("{error}") };
    assert_eq!(causes.len(), 3, "{error}");
    assert!(causes.iter().all(|c| matches!(c.cause, Fault::Unreachable(_))), "{error}");
    fleet.faults.iter().for_each(|faults| faults.refuse(false));
    assert!(redlock.acquire(&resource()).await.is_ok());
}
