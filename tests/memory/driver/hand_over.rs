//! Who waits in the process that releases is woken.

use crate::driver::fleet::*;

#[tokio::test(start_paused = true)]
async fn many_follow_one_another() {
    let fleet = Fleet::started().await;
    let redlock = fleet.process();
    let lease = redlock.acquire(&resource()).await.unwrap();
    let others: Vec<_> = (0..50).map(|_| waits(&redlock, Duration::from_millis(1))).collect();
    sleep(RETRY * 10).await;
    let asked = fleet.acquires();
    let start = Instant::now();
    drop(lease);
    for other in others {
        other.await.unwrap();
    }
    assert_eq!(start.elapsed(), Duration::from_millis(50));
    // Nobody asks while it is known to be held here.
    assert_eq!(fleet.acquires() - asked, 50);
}

/// The acquirer asks for all waiters. Whether its own wait is shorter or longer than theirs, they get its error.
#[tokio::test(start_paused = true)]
async fn waiters_get_the_error_of_the_acquirer() {
    for seconds in [2, 5] {
        let fleet = Fleet::of(5).await;
        let _held = fleet.connected().await.acquire(&resource()).await.unwrap();
        let redlock = fleet.service().wait(Duration::from_secs(2)).build().unwrap();
        let acquirer = redlock.with_wait(Duration::from_secs(seconds)).unwrap();
        let before = ran(&fleet.faults[0]).len();
        let waiters = (0..200).map(|number| {
            let redlock = if number == 0 { acquirer.clone() } else { redlock.clone() };
            tokio::spawn(async move { redlock.acquire(&resource()).await })
        });
        for waiter in waiters.collect::<Vec<_>>() {
            assert_held(waiter.await.unwrap());
        }
        // Each attempt is a request and its release; there is a renewal as well.
        let asked = ran(&fleet.faults[0]).len() - before;
        assert!(asked < 2 * 5000 / 50 + 5, "{asked} requests");
    }
}
