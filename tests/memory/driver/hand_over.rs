//! Who waits in the process that releases is woken.

use crate::driver::fleet::*;

async fn waiting(fleet: &Fleet) -> (Redlock, Lease, tokio::task::JoinHandle<Lease>) {
    let redlock = fleet.service().retry_delay(RETRY).build().unwrap();
    let lease = redlock.acquire(&resource()).await.unwrap();
    let next = tokio::spawn({
        let redlock = redlock.clone();
        async move { redlock.acquire(&resource()).await.unwrap() }
    });
    sleep(RETRY * 10).await;
    (redlock, lease, next)
}

#[tokio::test(start_paused = true)]
async fn a_release_or_a_drop_wakes_the_next_at_once() {
    for dropped in [false, true] {
        let fleet = Fleet::started().await;
        let (_redlock, lease, next) = waiting(&fleet).await;
        let (token, start) = (lease.token(), Instant::now());
        match dropped {
            true => drop(lease),
            false => drop(lease.release().await.unwrap()),
        }
        assert!(next.await.unwrap().token() > token);
        assert_eq!(start.elapsed(), Duration::ZERO, "dropped: {dropped}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_follow_one_another() {
    let fleet = Fleet::started().await;
    let (redlock, lease, next) = waiting(&fleet).await;
    let others: Vec<_> = (0..50).map(|_| waits(&redlock, Duration::from_millis(1))).collect();
    settle().await;
    let asked = fleet.acquires();
    let start = Instant::now();
    drop(lease);
    drop(next.await.unwrap());
    for other in others {
        other.await.unwrap();
    }
    assert_eq!(start.elapsed(), Duration::from_millis(50));
    // Nobody asks while it is known to be held here.
    assert_eq!(fleet.acquires() - asked, 51);
}
