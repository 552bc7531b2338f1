use super::*;

/// How long the suite has a lock stay closed: less than any TTL that it runs with.
const LEAST: Duration = Duration::from_millis(700);

/// Checks that a lock which was released early stays closed, for as long as it has to and no longer.
pub async fn closed(lock: &impl Lock) {
    let resource = resource("at least");
    let least = lock.with_lock_at_least_for(LEAST).unwrap();
    for dropped in [false, true] {
        let start = Instant::now();
        let lease = acquire(&least, &resource).await;
        let lost = lease.lost();
        if dropped {
            drop(lease);
        } else {
            release(lease).await;
        }
        assert_eq!(lost.await, Loss::Released, "lost() after the release");
        // An answer that came after the end proves nothing.
        let found = lock.try_acquire(&resource).await;
        let held = matches!(&found, Err(AcquireError::Held { retry_after, .. })
            if *retry_after <= LEAST);
        assert!(held || start.elapsed() >= LEAST, "try_acquire what was released early: {found:?}");
        drop(found);
        let next = acquire(lock, &resource).await;
        // Two clocks may run apart by a little.
        let waited = start.elapsed();
        assert!(waited >= LEAST * 99 / 100, "acquire what was released early: {waited:?}");
        release(next).await;
    }
    let longer = lock.with_lock_at_least_for(Duration::MAX);
    assert!(longer.is_err(), "a time that is longer than the TTL");
}
