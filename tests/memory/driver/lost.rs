//! Replies that are lost, late or doubled, and nodes that stand still and run late what they were asked.

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
    // So it is with two that hang, also for a client that starts then.
    fleet.faults[..2].iter().for_each(Faults::hang);
    let start = Instant::now();
    for redlock in [redlock, fleet.service().build().unwrap()] {
        redlock.try_acquire(&resource()).await.unwrap().release().await.unwrap();
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// Three of five run the acquire, and their replies are lost, late, or on their way when the nodes go on.
#[tokio::test(start_paused = true)]
async fn replies_that_do_not_come_in_time_are_no_votes_and_what_they_granted_is_taken_back() {
    for case in ["lost", "late", "hung"] {
        let (fleet, redlock) = Fleet::with_client(5).await;
        fleet.faults[..3].iter().for_each(|faults| match case {
            "lost" => faults.lose_replies(true),
            "late" => faults.delay_replies(BUDGET * 2),
            _ => faults.hang(),
        });
        let error = redlock.try_acquire(&resource()).await.unwrap_err();
        let AcquireError::NoQuorum { needed: 3, granted: 2, causes, .. } = &error else { panic!("{case}: {error}") };
        assert_eq!(causes.len(), 3, "{case}: {error}");
        assert!(causes.iter().all(|it| it.cause == Fault::TimedOut), "{case}: {error}");
        settle().await;
        fleet.faults.iter().for_each(Faults::heal);
        settle().await;
        // It locked, and was released at once.
        assert_eq!(ran(&fleet.faults[0]), ["acquire", "release"], "{case}");
        // Any other client finds it free, long before the TTL.
        let start = Instant::now();
        let lease = fleet.connected().await.try_acquire(&resource()).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO, "{case}");
        lease.release().await.unwrap();
        // And so does the same client, when it has given up on the replies.
        sleep(Duration::from_secs(3)).await;
        assert!(redlock.acquire(&resource()).await.is_ok(), "{case}");
        assert_eq!(redlock.health().await.granting, 5, "{case}");
    }
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

/// The session breaks first, and no other can be opened: nothing takes back what runs late. Then the TTL bounds it.
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

/// A hanging majority costs one budget, and never looks like a holder. Nothing is sent to a node that owes an answer.
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
