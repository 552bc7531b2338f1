//! The lock-delay: nodes keep the lock of a holder that vanished for that much longer.

use crate::driver::fleet::*;

const DELAY: Duration = Duration::from_secs(60);

/// A renewal may be 10 ms early: those that are due together go together.
const EARLY: Duration = Duration::from_millis(12);

/// Counts from the lease's last renewal, and the holder itself has no more of it than without.
#[tokio::test(start_paused = true)]
async fn a_lock_outlasts_its_lease_by_the_delay() {
    for renewed in [false, true] {
        let fleet = Fleet::started().await;
        let redlock = fleet.service().lock_delay(DELAY).renew(renewed).build().unwrap();
        let other = fleet.past_the_faults().wait(DELAY * 3).build().unwrap();
        let lease = redlock.try_acquire(&resource()).await.unwrap();
        assert_eq!(lease.valid_for(), TTL - DRIFT);
        let mut rest = TTL + DELAY;
        if renewed {
            sleep(TTL / 2).await;
            assert_eq!(ran(&fleet.faults[0]), ["acquire", "renew"]);
            rest -= TTL / 2 - TTL / 3;
            fleet.faults.iter().for_each(Faults::hang);
        }
        let Err(AcquireError::Held { retry_after, .. }) = other.try_acquire(&resource()).await
        else {
            panic!("it is held")
        };
        assert!(rest.abs_diff(retry_after) <= EARLY, "{retry_after:?}");
        assert!(lease.valid_for() < TTL - DRIFT || !renewed);
        let start = Instant::now();
        lease.lost().await;
        assert!(start.elapsed() < TTL);
        // The holder vanishes: nobody releases.
        std::mem::forget(lease);
        let next = other.acquire(&resource()).await.unwrap();
        assert!(start.elapsed() + EARLY >= rest, "{:?}", start.elapsed());
        next.release().await.unwrap();
    }
}
