use std::cell::Cell;

use fencing_protocol::{Fault, NonEmpty};

use super::*;
use crate::lock::backend::Ask;
use crate::lock::health::Health;
use crate::lock::held_lock::Grant;
use crate::lock::wait::notifications::{ReleaseNotifications, Subscription};
use crate::time::{Clock, SystemClock};

fn refused() -> AcquireError {
    AcquireError::WrongCount { count: 0, most: 0 }
}

const HOLD: Duration = Duration::from_millis(10);

/// Servers that tell nothing. The tests make the attempts.
#[derive(Clone)]
struct Silent {
    notifications: ReleaseNotifications,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Silent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Silent")
    }
}

impl LockBackend for Silent {
    const REPORTS_REMOTE_WAITERS: bool = false;

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    async fn attempt(
        &self,
        _: &NonEmpty<Resource>,
        _: Ask,
        _: &Settings,
    ) -> Result<Grant, AcquireError> {
        Err(refused())
    }

    fn subscribe(&self, resource: &Resource, since: Instant) -> Subscription {
        self.notifications.subscribe(resource, since)
    }

    fn has_remote_waiters(&self, _: &Resource) -> bool {
        false
    }

    fn forget_remote_waiters(&self, _: &Resource) {}

    async fn health(&self, _: &Settings) -> Health {
        self.failing(Fault::TimedOut)
    }

    fn failing(&self, _: Fault) -> Health {
        let (causes, fleet, nodes) = (Vec::new(), Vec::new(), Vec::new());
        Health { needed: 1, granting: 0, causes, fleet, nodes }
    }

    fn unavailable(&self, _: &Resource, _: Fault) -> AcquireError {
        refused()
    }

    fn prepare(&self, _: &Settings) {}

    async fn settle(&self) {}
}

fn parts(wait: Duration) -> (WaitQueues, Silent, Resource, Settings) {
    let silent =
        Silent { notifications: ReleaseNotifications::new(1), clock: Arc::new(SystemClock) };
    let settings = Settings { wait, ..Settings::new("budget", (HOLD, 2)) };
    (WaitQueues::default(), silent, Resource::new("invoice/42").unwrap(), settings)
}

#[tokio::test(start_paused = true)]
async fn one_whose_wait_ends_takes_what_is_handed_over_to_it() {
    let (queues, silent, resource, settings) = parts(Duration::ZERO);
    let asked = Cell::new(0);
    let attempt = || {
        asked.set(asked.get() + 1);
        // A release comes behind the first answer, and nobody elsewhere is told.
        if asked.get() == 1 {
            queues.wake(&resource, true);
        }
        std::future::ready(if asked.get() == 1 { Err(refused()) } else { Ok(()) })
    };
    let mode = Mode::Exclusive;
    assert_eq!(queues.acquire((&silent, &resource, &settings), mode, attempt).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_process_pauses_now_and_again_for_those_who_only_poll() {
    let (queues, silent, resource, settings) = parts(Duration::from_secs(30));
    let mut without_a_pause = 0;
    loop {
        let asked = Instant::now();
        let attempt = || std::future::ready(Ok::<(), AcquireError>(()));
        let mode = Mode::Exclusive;
        queues.acquire((&silent, &resource, &settings), mode, attempt).await.unwrap();
        if asked.elapsed() > Duration::ZERO {
            break;
        }
        without_a_pause += 1;
        assert!(without_a_pause < 1000, "no pause");
        tokio::time::sleep(HOLD).await;
        queues.wake(&resource, false);
    }
    // Ten retry delays.
    assert!(without_a_pause >= 100, "{without_a_pause}");
}

#[test]
fn a_lease_is_handed_over_on_only_while_somebody_waits_here() {
    let queue = WaitQueue::default();
    queue.on_acquired(Mode::Exclusive, HOLD);
    queue.on_hand_over(false, true);
    let waits = queue.enter();
    assert!(queue.hands_over());
    drop(waits);
    assert!(!queue.hands_over());
}
