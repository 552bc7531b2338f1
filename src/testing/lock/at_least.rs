use std::time::Duration;

use tokio::time::Instant;

use super::{acquire, release};
use crate::lock::{AcquireError, Lock, Loss};
use crate::testing::{Breach, Rule, resource};

/// How long the suite has a lock stay closed: less than any TTL that it runs with.
const LEAST: Duration = Duration::from_millis(700);

/// Checks that a lock which was released early stays closed, for as long as it has to and no longer.
pub(super) async fn closed(lock: &impl Lock) -> Result<(), Breach> {
    let resource = resource("at least")?;
    let least = lock.with_lock_at_least_for(LEAST);
    let least = least.map_err(|error| Rule::AtLeast.breach("with_lock_at_least_for", &error))?;
    for dropped in [false, true] {
        let start = Instant::now();
        let lease = acquire(&least, &resource).await?;
        let lost = lease.lost();
        if dropped {
            drop(lease);
        } else {
            release(lease).await?;
        }
        Rule::LossReported.same("lost() after the release", &lost.await, &Loss::Released)?;
        // An answer that came after the end proves nothing.
        let found = lock.try_acquire(&resource).await;
        let held = matches!(&found, Err(AcquireError::Held { retry_after, .. })
            if *retry_after <= LEAST);
        let right = held || start.elapsed() >= LEAST;
        Rule::AtLeast.holds(right, "try_acquire what was released early", &found)?;
        drop(found);
        let next = acquire(lock, &resource).await?;
        // Two clocks may run apart by a little.
        let right = start.elapsed() >= LEAST * 99 / 100;
        Rule::AtLeast.holds(right, "acquire what was released early", &start.elapsed())?;
        release(next).await?;
    }
    let longer = lock.with_lock_at_least_for(Duration::MAX).err();
    Rule::AtLeast.holds(longer.is_some(), "a time that is longer than the TTL", &longer)
}
