//! Replies that are lost, late or doubled.

use crate::driver::fleet::*;

#[tokio::test(start_paused = true)]
async fn a_reply_lost_on_two_nodes_is_won_with_the_others_and_released_everywhere() {
    let (fleet, redlock) = Fleet::with_client(5).await;
    fleet.faults[..2].iter().for_each(|faults| faults.lose_replies(true));
    let start = Instant::now();
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO, "nobody waits for the two");
    assert_eq!(fleet.locked().await, [true; 5]);
    assert_eq!(lease.release().await, Ok(Released::Released));
    settle().await;
    assert_eq!(fleet.locked().await, [false; 5]);
    assert_eq!(ran(&fleet.faults[0]), ["acquire", "release"]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_lost_on_three_nodes_is_no_quorum_and_taken_back_everywhere() {
    let (fleet, redlock) = Fleet::with_client(5).await;
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
    let start = Instant::now();
    let lease = fleet.connected().await.try_acquire(&resource()).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    lease.release().await.unwrap();
    // And so does the same client, when it has given up on the lost replies.
    sleep(Duration::from_secs(3)).await;
    assert!(redlock.acquire(&resource()).await.is_ok());
    assert_eq!(redlock.health().await.granting, 5);
}

#[tokio::test(start_paused = true)]
async fn replies_that_come_after_the_budget_are_no_votes() {
    let (fleet, redlock) = Fleet::with_client(5).await;
    fleet.faults[..3].iter().for_each(|faults| faults.delay_replies(BUDGET * 2));
    let error = redlock.try_acquire(&resource()).await.unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum { granted: 2, .. }), "{error}");
    sleep(BUDGET * 2).await;
    assert_eq!(fleet.locked().await, [false; 5]);
    fleet.faults.iter().for_each(Faults::heal);
    assert!(redlock.acquire(&resource()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn requests_that_run_twice_change_nothing() {
    let (fleet, redlock) = Fleet::with_client(5).await;
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
