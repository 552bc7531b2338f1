//! The lock-delay on real servers.

use std::time::Duration;

use fencing::Redlock;

use crate::scripts::member::{LOCK, left};
use crate::scripts::resource;
use support::redis::RedisServer;

const HOUR: i64 = 3_600_000;

/// The lock goes by hand, and the renewal sets it again.
#[tokio::test]
async fn locks_and_renewed_locks_outlast_their_lease_by_the_delay() {
    let server = RedisServer::start();
    let redlock = Redlock::builder().redis([server.url()]).ttl(Duration::from_secs(6));
    let redlock = redlock.lock_delay(Duration::from_secs(3600)).first_start(true).build().unwrap();
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    let granted = left(&server, LOCK);
    assert!(granted > HOUR, "{granted}");
    // The renewal moves the end of a lock that is there, or sets one that is not.
    for gone in [false, true] {
        let shortened = ["PEXPIRE", LOCK, "60000"];
        let by_hand = if gone { &["DEL", LOCK][..] } else { &shortened[..] };
        assert_eq!(server.cli(by_hand), "1");
        // Until a renewal comes it is as it was left, less the time that the lease lasts at most.
        let as_left = if gone { -2..=-2 } else { 50_000..=60_000 };
        let mut renewed = left(&server, LOCK);
        while as_left.contains(&renewed) {
            assert!(!lease.valid_for().is_zero(), "the lease was not renewed");
            tokio::time::sleep(Duration::from_millis(20)).await;
            renewed = left(&server, LOCK);
        }
        assert!(renewed > HOUR, "gone {gone}: {renewed}");
    }
    assert!(lease.valid_for() < Duration::from_secs(6));
}
