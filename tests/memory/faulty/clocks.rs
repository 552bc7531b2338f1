//! Clocks of nodes that jump: exclusion may suffer, the order of the tokens may not.

use crate::driver::fleet::*;

/// Clocks of a majority jump ahead: locks expire early, and two hold the lease at once.
#[tokio::test(start_paused = true)]
async fn an_early_expiry_gives_larger_tokens_and_the_first_holder_learns_of_it() {
    let (fleet, redlock) = Fleet::with_client(5).await;
    let mut last = None;
    let mut leases = Vec::new();
    for round in 0..20 {
        let lease = redlock.acquire(&resource()).await.unwrap();
        assert!(Some(lease.token()) > last, "round {round}");
        last = Some(lease.token());
        leases.push(lease);
        // Another majority each time.
        (0..3).for_each(|node| fleet.clocks[(round + node) % 5].jump(3600));
    }
    let over = leases.len() - 1;
    sleep(TTL).await;
    for lease in &leases[..over] {
        assert_eq!(lease.valid_for(), Duration::ZERO, "{}", lease.token());
    }
}

/// Clocks of a majority jump back: a holder that vanished leaves locks for an hour.
#[tokio::test(start_paused = true)]
async fn a_stuck_lock_is_held_until_its_time_and_the_next_token_is_larger() {
    let fleet = Fleet::of(5).await;
    let vanished = fleet.service().renew(false).build().unwrap();
    let first = vanished.acquire(&resource()).await.unwrap();
    fleet.faults.iter().for_each(Faults::hang);
    let token = first.token();
    first.lost().await;
    // It never releases.
    std::mem::forget(first);
    fleet.clocks[..3].iter().for_each(|clock| clock.jump(-3600));
    fleet.faults.iter().for_each(Faults::resume);
    let redlock = fleet.service().wait(Duration::ZERO).build().unwrap();
    let start = Instant::now();
    let lease = loop {
        match redlock.acquire(&resource()).await {
            Ok(lease) => break lease,
            Err(AcquireError::Held { .. }) => sleep(Duration::from_secs(10)).await,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(start.elapsed() > Duration::from_secs(3500), "{:?}", start.elapsed());
    assert!(lease.token() > token);
}
