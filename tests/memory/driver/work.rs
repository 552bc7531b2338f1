//! Work under a lease that has lapsed while the machine stood still.

use std::cell::Cell;

use tokio::sync::oneshot;

use crate::driver::fleet::*;

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
