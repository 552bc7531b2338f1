//! The watchdog against nodes that hang, against loss, and against the release; and the work under a lease that has
//! lapsed while the machine stood still. Nothing is renewed behind a release: the release stops the watchdog, and where
//! that is in the middle of a renewal, the holder refuses it.

use std::cell::Cell;
use std::sync::Mutex;

use fencing::lock::Lease;
use fencing::time::{Clock, Time};
use support::waiting::until;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::driver::fleet::*;

/// From now to the end of the lease, by the deadline it shows.
fn left(lease: &Lease) -> Duration {
    let left = lease.valid_for();
    assert!(left > Duration::ZERO && left < TTL, "{left:?}");
    left
}

/// Whether nothing answers, or the nodes renew the lock and no answer of a majority is heard in time.
#[tokio::test(start_paused = true)]
async fn loss_comes_at_the_local_deadline_though_nothing_is_heard() {
    for hung in [true, false] {
        let fleet = Fleet::of(5).await;
        let lease = fleet.connected().await.try_acquire(&resource()).await.unwrap();
        match hung {
            true => fleet.faults.iter().for_each(Faults::hang),
            false => fleet.faults[..3].iter().for_each(|faults| faults.lose_replies(true)),
        }
        let (start, left) = (Instant::now(), left(&lease));
        assert_eq!(lease.lost().await, Loss::Expired);
        // The runtime's timers tick in milliseconds.
        let late = start.elapsed().saturating_sub(left);
        assert!(start.elapsed() >= left && late <= Duration::from_millis(1), "{late:?}");
        assert_eq!(lease.valid_for(), Duration::ZERO);
        assert_eq!(lease.run(async {}).await.unwrap_err().loss, Loss::Expired);
    }
}

/// The machine sleeps past the deadline while the renewal is on its way: its answers come before any timer fires.
#[tokio::test(start_paused = true)]
async fn a_lease_that_lapsed_while_the_machine_slept_is_not_revived() {
    let fleet = Fleet::of(5).await;
    let lease = fleet.connected().await.try_acquire(&resource()).await.unwrap();
    fleet.faults.iter().for_each(|faults| faults.delay_replies(BUDGET * 4 / 5));
    until("it is renewed", async || ran(&fleet.faults[0]) == ["acquire", "renew"]).await;
    fleet.clock.jump(7);
    assert_eq!(lease.valid_for(), Duration::ZERO);
    sleep(BUDGET).await;
    assert_eq!(lease.valid_for(), Duration::ZERO);
    assert_eq!(lease.lost().await, Loss::Expired);
}

/// Timers stand still while the machine sleeps. The clock says what time it is.
#[tokio::test(start_paused = true)]
async fn a_loss_while_the_machine_slept_is_noticed_soon() {
    let fleet = Fleet::of(5).await;
    let redlock = fleet.service().renew(false).build().unwrap();
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    let mut lost = Box::pin(lease.lost());
    assert!(timeout(BUDGET, &mut lost).await.is_err());
    fleet.clock.jump(10);
    let start = Instant::now();
    assert_eq!(lost.await, Loss::Expired);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

/// Clocks of a majority jump ahead: locks expire early, and two hold the lease at once.
#[tokio::test(start_paused = true)]
async fn an_early_expiry_gives_larger_tokens_and_the_first_holder_learns_of_it() {
    let (fleet, redlock) = Fleet::with_client(5).await;
    let mut last = None;
    let mut leases = Vec::new();
    for round in 0..20 {
        let lease = redlock.acquire(&resource()).await.unwrap();
        assert!(Some(lease.token()) > last, "round {round}");
        last = Some(lease.token());
        leases.push(lease);
        // Another majority each time.
        (0..3).for_each(|node| fleet.clocks[(round + node) % 5].jump(3600));
    }
    let over = leases.len() - 1;
    sleep(TTL).await;
    for lease in &leases[..over] {
        assert_eq!(lease.valid_for(), Duration::ZERO, "{}", lease.token());
    }
}

/// The clock is past the deadline, and no timer has fired yet. Something wakes the work.
#[tokio::test(start_paused = true)]
async fn the_work_of_a_lapsed_lease_is_not_polled_again() {
    let fleet = Fleet::started().await;
    let redlock = fleet.service().renew(false).build().unwrap();
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    let polls = Cell::new(0);
    let (wake, woken) = oneshot::channel();
    let work = async {
        polls.set(polls.get() + 1);
        woken.await.unwrap();
        polls.set(polls.get() + 1);
    };
    let run = begun(lease.run(work));
    fleet.clock.jump(i64::try_from(TTL.as_secs()).unwrap());
    wake.send(()).unwrap();
    let outcome = run.now_or_never().expect("it is over");
    assert_eq!((outcome.unwrap_err().loss, polls.get()), (Loss::Expired, 1));
    // The same for work that was not begun.
    let lease = redlock.try_acquire(&named("other")).await.unwrap();
    let run = lease.run(async { panic!("it was begun") });
    fleet.clock.jump(i64::try_from(TTL.as_secs()).unwrap());
    let outcome: Result<(), _> = run.now_or_never().expect("it is over");
    assert_eq!(outcome.unwrap_err().loss, Loss::Expired);
}

/// A clock that ends a lease while somebody reads it, as another thread may at any time. The
/// one that reads is in the middle of a step then, which nothing stops.
#[derive(Debug, Clone)]
struct Trap {
    clock: TokioClock,
    /// What is ended, and whether by a release or a drop.
    prey: Arc<Mutex<Option<(Lease, bool)>>>,
    /// How many readings before that.
    readings: Arc<AtomicUsize>,
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
