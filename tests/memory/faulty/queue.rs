//! The local queue: one contender on the wire, and all told the truth.

use std::time::Duration;

use fencing::lock::AcquireError;

use crate::faulty::fleet::{Fleet, ran, resource};

#[tokio::test(start_paused = true)]
async fn waiters_get_the_error_of_the_acquirer() {
    waiters(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn so_do_waiters_with_a_shorter_wait() {
    waiters(Duration::from_secs(5)).await;
}

async fn waiters(contender: Duration) {
    let fleet = Fleet::started().await;
    let holder = fleet.connected().await.acquire(&resource()).await.unwrap();
    let redlock = fleet.service().wait(Duration::from_secs(2)).build().unwrap();
    let before = ran(&fleet.faults[0]).len();
    let waiters: Vec<_> = (0..200)
        .map(|number| {
            let redlock = redlock.clone();
            let redlock = if number == 0 { redlock.with_wait(contender).unwrap() } else { redlock };
            tokio::spawn(async move { redlock.acquire(&resource()).await.map(drop) })
        })
        .collect();
    for waiter in waiters {
        let error = waiter.await.unwrap().unwrap_err();
        assert!(matches!(error, AcquireError::Held { .. }), "{error}");
    }
    // Each attempt is a request and its release; there is a renewal as well.
    let asked = ran(&fleet.faults[0]).len() - before;
    assert!(asked < 2 * 5000 / 50 + 5, "{asked} requests");
    drop(holder);
}
