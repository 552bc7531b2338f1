use std::time::Duration;

use crate::time::{Clock, Time};

/// How often the clock is looked at. The runtime's timers stand still while the machine is
/// suspended, and the clock does not.
const SLICE: Duration = Duration::from_millis(250);

/// Waits until `clock` shows `until`. You may drop it at any point.
pub(super) async fn sleep_until(clock: &dyn Clock, until: Time) {
    loop {
        let left = until.since(clock.now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(SLICE)).await;
    }
}
