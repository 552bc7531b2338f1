//! Nodes that stand still, and run late what they were asked.

use crate::driver::fleet::*;

#[tokio::test(start_paused = true)]
async fn an_acquire_that_runs_late_is_taken_back_behind_it() {
    let (fleet, redlock) = Fleet::with_client(5).await;
    fleet.faults[..3].iter().for_each(Faults::hang);
    let error = redlock.try_acquire(&resource()).await.unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum { granted: 2, .. }), "{error}");
    settle().await;
    assert_eq!(ran(&fleet.faults[0]), [""; 0]);
    fleet.faults.iter().for_each(Faults::resume);
    settle().await;
    // It locked, and was released at once: no time has passed.
    assert_eq!(ran(&fleet.faults[0]), ["acquire", "release"]);
    assert_eq!(fleet.locked().await, [false; 5]);
}

/// The session breaks first, and no other can be opened: nothing can take back what runs
/// late. The TTL is then the bound.
#[tokio::test(start_paused = true)]
async fn an_acquire_that_runs_late_over_a_broken_session_stays_for_the_ttl_at_most() {
    let (fleet, redlock) = Fleet::with_client(5).await;
    fleet.faults[..3].iter().for_each(Faults::hang);
    let mut attempt = begun(async { redlock.try_acquire(&resource()).await });
    settle().await;
    fleet.faults[..3].iter().for_each(|faults| faults.break_sessions());
    let error = (&mut attempt).await.unwrap_err();
    assert!(matches!(error, AcquireError::NoQuorum { granted: 2, .. }), "{error}");
    sleep(Duration::from_secs(30)).await;
    fleet.faults.iter().for_each(Faults::resume);
    settle().await;
    assert_eq!(fleet.locked().await, [true, true, true, false, false]);
    let resumed = Instant::now();
    let lease = fleet.service().build().unwrap().acquire(&resource()).await.unwrap();
    let waited = resumed.elapsed();
    assert!(waited > TTL / 2 && waited <= TTL + Duration::from_secs(1), "{waited:?}");
    lease.release().await.unwrap();
    // The client that had given up works again by itself.
    assert!(redlock.acquire(&resource()).await.is_ok());
}

/// A majority that hangs costs one budget, and never looks like another holder. Nothing
/// is sent to a node that owes an answer.
#[tokio::test(start_paused = true)]
async fn a_hung_majority_costs_one_budget_and_is_no_holder() {
    let (fleet, redlock) = Fleet::with_client(5).await;
    fleet.faults[..3].iter().for_each(Faults::hang);
    for round in 0..50 {
        let start = Instant::now();
        let error = redlock.try_acquire(&resource()).await.unwrap_err();
        assert!(matches!(error, AcquireError::NoQuorum { .. }), "{error}");
        let most = if (1..10).contains(&round) { Duration::ZERO } else { BUDGET };
        let cost = start.elapsed();
        assert!(cost <= most + Duration::from_millis(1), "round {round}: {cost:?}");
        sleep(Duration::from_millis(137)).await;
    }
    fleet.faults.iter().for_each(Faults::resume);
    settle().await;
    assert!(fleet.acquires() < 5, "{}", fleet.acquires());
    assert!(redlock.acquire(&resource()).await.is_ok());
}
