//! Nothing is renewed behind a release: the release stops the watchdog, and where that is in
//! the middle of a renewal, the holder refuses it.

use std::fmt;
use std::sync::Mutex;

use fencing::lock::Lease;
use fencing::time::{Clock, Time};
use tokio::runtime::Handle;

use crate::driver::fleet::*;

/// A clock that ends a lease while somebody reads it, as another thread may at any time. The
/// one that reads is in the middle of a step then, which nothing stops.
#[derive(Clone)]
struct Trap {
    clock: TokioClock,
    /// What is ended, and whether by a release or a drop.
    prey: Arc<Mutex<Option<(Lease, bool)>>>,
    /// How many readings before that.
    readings: Arc<AtomicUsize>,
}

impl fmt::Debug for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trap")
    }
}

impl Clock for Trap {
    fn now(&self) -> Time {
        let prey = self.prey.try_lock().ok().and_then(|mut prey| {
            let snap = prey.is_some() && self.readings.fetch_sub(1, Ordering::SeqCst) == 0;
            if snap { prey.take() } else { None }
        });
        match prey {
            Some((lease, true)) => drop(lease.release().now_or_never()),
            Some((lease, false)) => drop(lease),
            None => {}
        }
        self.clock.now()
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_renewed_behind_a_release_in_the_middle_of_a_renewal() {
    let mut renewed_before = 0;
    for released in [true, false] {
        for readings in 0..20 {
            let fleet = Fleet::started().await;
            let (clock, readings) = (fleet.clock.clone(), Arc::new(AtomicUsize::new(readings)));
            let trap = Trap { clock, prey: Arc::default(), readings };
            let redlock = fleet.service().clock(trap.clone()).build().unwrap();
            let lease = redlock.try_acquire(&resource()).await.unwrap();
            // Just before the watchdog wakes to renew it.
            sleep(TTL / 3 - Duration::from_millis(5)).await;
            *trap.prey.lock().unwrap() = Some((lease, released));
            sleep(TTL * 3).await;
            assert!(trap.prey.lock().unwrap().is_none(), "it was never ended");
            for faults in &fleet.faults {
                let ran = ran(faults);
                assert_eq!(ran.last(), Some(&"release"), "{ran:?}");
                renewed_before += ran.iter().filter(|name| **name == "renew").count();
            }
        }
    }
    // The sweep goes past the beginning of a renewal.
    assert!(renewed_before > 0);
}

/// The leases of a service share one watchdog, which is gone when the last of them would have been renewed.
#[tokio::test(start_paused = true)]
async fn a_release_leaves_no_watchdog() {
    let (_fleet, redlock) = Fleet::with_client(3).await;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    sleep(TTL).await;
    let before = tasks();
    for released in [true, false] {
        let mut leases = Vec::new();
        for number in 0..3 {
            let resource = named(&format!("{released}/{number}"));
            leases.push(redlock.try_acquire(&resource).await.unwrap());
        }
        settle().await;
        assert_eq!(tasks(), before + 1, "their watchdog");
        sleep(TTL * 2).await;
        assert_eq!(tasks(), before + 1, "their watchdog");
        for lease in leases {
            if released {
                lease.release().await.unwrap();
            }
        }
        sleep(TTL / 2).await;
        assert_eq!(tasks(), before, "released: {released}");
    }
}
