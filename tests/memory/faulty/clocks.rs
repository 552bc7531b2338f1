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

/// Both ways, any node, with holders that come and go, and now and then a node that
/// forgets and is given an era while the clocks are wrong.
#[tokio::test(start_paused = true)]
async fn clocks_that_jump_both_ways_never_reverse_the_tokens() {
    let fleet = Fleet::of(5).await;
    let clients = [fleet.connected().await, fleet.connected().await];
    // The same each time: a walk through all of it.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    };
    let (mut last, mut held, mut granted) = (None, Vec::new(), 0);
    for round in 0..600 {
        let node = usize::try_from(below(5)).unwrap();
        let seconds = i64::try_from(below(40)).unwrap();
        match below(4) {
            0 => fleet.clocks[node].jump(seconds),
            1 => fleet.clocks[node].jump(-seconds),
            _ => {}
        }
        // One at a time: it is well again long before the next one forgets.
        match round % 60 {
            7 => fleet.nodes[node].flush(),
            37 => fleet.nodes[node].restart(),
            _ => {}
        }
        let client = &clients[round % 2];
        if let Ok(lease) = client.try_acquire(&resource()).await {
            assert!(Some(lease.token()) > last, "round {round}: {last:?}, then {lease:?}");
            last = Some(lease.token());
            held.push(lease);
            granted += 1;
        }
        if below(2) == 0 {
            held.clear();
            settle().await;
        }
        sleep(Duration::from_millis(below(3000))).await;
    }
    assert!(granted > 100, "{granted}");
}
