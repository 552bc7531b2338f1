//! Every future of a lock and its leases dropped after each number of polls, over nodes whose answers are late. Whoever
//! is dropped leaves nothing locked, and nobody in the queue.

use crate::driver::fleet::*;

/// There is more to be dropped in between than with nodes that answer at once.
async fn slow() -> (Fleet, Redlock) {
    let (fleet, redlock) = Fleet::with_client(5).await;
    for (faults, late) in fleet.faults.iter().zip(1..) {
        faults.delay_replies(BUDGET * late / 10);
    }
    (fleet, redlock)
}

/// Everything is released as soon as the answers are there, long before the TTL, and the next caller gets it.
async fn next_succeeds(fleet: &Fleet, redlock: &Redlock, what: &str) {
    sleep(BUDGET * 3).await;
    assert_eq!(fleet.locked().await, [false; 5], "{what}");
    let lease = redlock.try_acquire(&resource()).await;
    lease.unwrap_or_else(|error| panic!("{what}: {error}")).release().await.unwrap();
    sleep(BUDGET * 3).await;
}

#[tokio::test(start_paused = true)]
async fn whatever_is_dropped_half_way_is_taken_back() {
    let (fleet, redlock) = slow().await;
    for what in ["acquire", "acquire over new sessions", "try_acquire", "release", "health"] {
        for polls in 0..=300 {
            let new = fleet.service().build().unwrap();
            let redlock = if what.ends_with("new sessions") { &new } else { &redlock };
            // One node counts further than the others, so that the next token must be published.
            let session = fleet.nodes[0].open(&members(5), "me").await.unwrap();
            ask_alone(&*session, acquire(&resource(), ALICE)).await.unwrap();
            ask_alone(&*session, release(&resource(), ALICE)).await.unwrap();
            let done = match what {
                "try_acquire" => polled(redlock.try_acquire(&resource()), polls).await.is_some(),
                "release" => {
                    let lease = redlock.acquire(&resource()).await.unwrap();
                    polled(lease.release(), polls).await.is_some()
                }
                "health" => polled(redlock.health(), polls).await.is_some(),
                _ => polled(redlock.acquire(&resource()), polls).await.is_some(),
            };
            next_succeeds(&fleet, redlock, &format!("{what}, {polls} polls")).await;
            if done {
                assert!(polls > 1, "{what} was never dropped half way");
                break;
            }
            assert!(polls < 300, "{what} never ends");
        }
    }
    assert_eq!(redlock.health().await.granting, 5);
}

/// Who waits behind a holder, and who waits behind it in the queue.
#[tokio::test(start_paused = true)]
async fn those_who_gave_up_behind_a_holder_are_not_left_in_the_queue() {
    let (fleet, redlock) = slow().await;
    let other = fleet.connected().await;
    for polls in 0..40 {
        let held = other.acquire(&resource()).await.unwrap();
        let first = {
            let redlock = redlock.clone();
            tokio::spawn(async move { polled(redlock.acquire(&resource()), polls).await.is_some() })
        };
        assert!(polled(redlock.acquire(&resource()), polls).await.is_none(), "{polls} polls");
        assert!(!first.await.unwrap());
        held.release().await.unwrap();
        next_succeeds(&fleet, &redlock, &format!("{polls} polls")).await;
    }
    let start = Instant::now();
    redlock.acquire(&resource()).await.unwrap().release().await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "somebody is left in the queue");
}
