//! Nodes that stand still, and run late what they were asked.

use std::time::Duration;

use fencing::lock::AcquireError;

use crate::faulty::fleet::{BUDGET, Fleet, TTL, ran, resource, settle};

#[tokio::test(start_paused = true)]
async fn an_acquire_that_runs_late_is_taken_back_behind_it() {
    let fleet = Fleet::started().await;
    let redlock = fleet.connected().await;
    fleet.faults[..3].iter().for_each(|faults| faults.hang());
    let error = redlock.try_acquire(&resource()).await.unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum { granted: 2, .. }), "{error}");
    settle().await;
    assert_eq!(ran(&fleet.faults[0]), [""; 0]);
    fleet.faults.iter().for_each(|faults| faults.resume());
    settle().await;
    // It locked, and was released at once: no time has passed.
    assert_eq!(ran(&fleet.faults[0]), ["acquire", "release"]);
    assert_eq!(fleet.locked().await, [false; 5]);
}

/// The session breaks first, and no other can be opened: nothing can take back what runs
/// late. The TTL is then the bound.
#[tokio::test(start_paused = true)]
async fn an_acquire_that_runs_late_over_a_broken_session_stays_for_the_ttl_at_most() {
    let fleet = Fleet::started().await;
    let redlock = fleet.connected().await;
    fleet.faults[..3].iter().for_each(|faults| faults.hang());
    let attempt = {
        let redlock = redlock.clone();
        tokio::spawn(async move { redlock.try_acquire(&resource()).await.map(drop) })
    };
    settle().await;
    fleet.faults[..3].iter().for_each(|faults| faults.break_sessions());
    let error = attempt.await.unwrap().unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum { granted: 2, .. }), "{error}");
    tokio::time::sleep(Duration::from_secs(30)).await;
    fleet.faults.iter().for_each(|faults| faults.resume());
    settle().await;
    assert_eq!(fleet.locked().await, [true, true, true, false, false]);
    let resumed = tokio::time::Instant::now();
    let lease = fleet.service().build().unwrap().acquire(&resource()).await.unwrap();
    let waited = resumed.elapsed();
    assert!(waited > TTL / 2 && waited <= TTL + Duration::from_secs(1), "{waited:?}");
    lease.release().await.unwrap();
    // The client that had given up works again by itself.
    assert!(redlock.acquire(&resource()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn two_of_five_that_hang_for_ever_never_cost_more_than_one_budget() {
    let fleet = Fleet::started().await;
    let redlock = fleet.connected().await;
    fleet.faults[..2].iter().for_each(|faults| faults.hang());
    for round in 0..100 {
        let start = tokio::time::Instant::now();
        let lease = redlock.try_acquire(&resource()).await.unwrap();
        assert!(start.elapsed() <= BUDGET, "round {round}: {:?}", start.elapsed());
        assert_eq!(start.elapsed(), Duration::ZERO, "round {round}: a majority had answered");
        let start = tokio::time::Instant::now();
        lease.release().await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO, "round {round}: release");
        tokio::time::sleep(Duration::from_millis(137)).await;
    }
}

/// The same for a client that starts when they hang already.
#[tokio::test(start_paused = true)]
async fn two_of_five_that_hang_from_the_start_hold_nobody_up() {
    let fleet = Fleet::started().await;
    fleet.faults[3..].iter().for_each(|faults| faults.hang());
    let redlock = fleet.service().build().unwrap();
    for round in 0..100 {
        let start = tokio::time::Instant::now();
        let lease = redlock.try_acquire(&resource()).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO, "round {round}");
        lease.release().await.unwrap();
        tokio::time::sleep(Duration::from_millis(137)).await;
    }
}

/// A majority that hangs costs one budget, and never looks like another holder. Nothing
/// is sent to a node that owes an answer.
#[tokio::test(start_paused = true)]
async fn a_hung_majority_costs_one_budget_and_is_no_holder() {
    let fleet = Fleet::started().await;
    let redlock = fleet.connected().await;
    fleet.faults[..3].iter().for_each(|faults| faults.hang());
    for round in 0..50 {
        let start = tokio::time::Instant::now();
        let error = redlock.try_acquire(&resource()).await.unwrap_err();
        assert!(matches!(error, AcquireError::NoQuorum { .. }), "{error}");
        let most = if (1..10).contains(&round) { Duration::ZERO } else { BUDGET };
        let cost = start.elapsed();
        assert!(cost <= most + Duration::from_millis(1), "round {round}: {cost:?}");
        tokio::time::sleep(Duration::from_millis(137)).await;
    }
    fleet.faults.iter().for_each(|faults| faults.resume());
    settle().await;
    let acquires = ran(&fleet.faults[0]).iter().filter(|name| **name == "acquire").count();
    assert!(acquires < 5, "{acquires}");
    assert!(redlock.acquire(&resource()).await.is_ok());
}
