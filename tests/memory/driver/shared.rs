//! A lock that several share, on nodes that fail, on simulated time.

use fencing::lock::SharedLease;
use tokio::time::sleep_until;

use crate::driver::fleet::*;

/// How often the first node was asked for this.
fn asked(fleet: &Fleet, what: impl Fn(&Request) -> bool) -> usize {
    fleet.faults[0].log().iter().filter(|(request, _)| what(request)).count()
}

fn drains(fleet: &Fleet) -> usize {
    asked(fleet, |request| matches!(request, Request::Drain { .. }))
}

/// Waits for a part of the lock, and returns when it had it.
fn joins(redlock: &Redlock) -> JoinHandle<(Instant, SharedLease)> {
    let redlock = redlock.clone();
    tokio::spawn(async move {
        let part = redlock.acquire_shared(&resource()).await.unwrap();
        (Instant::now(), part)
    })
}

/// Who was notified comes before a reader of the process that has released.
#[tokio::test(start_paused = true)]
async fn a_reader_lets_the_notified_writer_come_first() {
    let fleet = Fleet::started().await;
    let (here, elsewhere) = (fleet.process(), fleet.process());
    for _ in 0..5 {
        let lease = here.acquire(&resource()).await.unwrap();
        let waiter = waits(&elsewhere, RETRY / 4);
        sleep(RETRY * 20).await;
        lease.release().await.unwrap();
        let start = Instant::now();
        let part = here.acquire_shared(&resource()).await.unwrap();
        assert_eq!(waiter.await.unwrap() - start, Duration::ZERO);
        part.release().await.unwrap();
    }
    // It has not split the votes before.
    let shares = |request: &Request| matches!(request, Request::Acquire { mode: Mode::Shared, .. });
    assert_eq!(asked(&fleet, shares), 5);
}

/// Clients that come after that wait as one, and not one after another, whether hints arrive or not.
#[tokio::test(start_paused = true)]
async fn readers_wait_together_for_the_notified_writer() {
    let fleet = Fleet::started().await;
    let (here, elsewhere) = (fleet.process(), fleet.process());
    let lease = here.acquire(&resource()).await.unwrap();
    let waiter = waits(&elsewhere, Duration::ZERO);
    sleep(RETRY * 20).await;
    lease.release().await.unwrap();
    waiter.await.unwrap();
    fleet.faults.iter().for_each(|faults| faults.lose_notifications(true));
    let start = Instant::now();
    let readers: Vec<_> = (0..50).map(|_| joins(&here)).collect();
    for reader in readers {
        let (at, _part) = reader.await.unwrap();
        assert!(at - start <= RETRY * 2, "{:?}", at - start);
    }
}

/// One that has waited longer than the one which closed the lock is notified first, may not join, and passes the
/// hint on.
#[tokio::test(start_paused = true)]
async fn one_that_may_not_join_passes_the_hint_on() {
    let fleet = Fleet::started().await;
    let part = fleet.process().acquire_shared(&resource()).await.unwrap();
    let dropped = fleet.process();
    assert!(timeout(RETRY * 3, dropped.acquire(&resource())).await.is_err());
    let (reader, writer) = (fleet.process(), fleet.process());
    let shares = joins(&reader);
    sleep(RETRY).await;
    let waiter = waits(&writer, Duration::ZERO);
    sleep(MAX_DELAY * 4).await;
    assert!(!shares.is_finished());
    let start = Instant::now();
    part.release().await.unwrap();
    assert_eq!(waiter.await.unwrap() - start, Duration::ZERO);
    drop(shares.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_gives_up_lets_others_join_again() {
    let fleet = Fleet::started().await;
    let lock = fleet.process();
    let _part = lock.acquire_shared(&resource()).await.unwrap();
    let brief = fleet.process().with_wait(RETRY * 3).unwrap();
    let start = Instant::now();
    assert_held(brief.acquire(&resource()).await);
    assert!(drains(&fleet) > 0);
    sleep_until(start + RETRY * 4).await;
    drop(lock.try_acquire_shared(&resource()).await.unwrap());
}

/// Clients that wait to hold it alone keep others out for 20 s, and let them join for as long.
#[tokio::test(start_paused = true)]
async fn clients_that_wait_on_and_on_let_others_join_in_turn() {
    let fleet = Fleet::started().await;
    let lock = fleet.process();
    let _part = lock.acquire_shared(&resource()).await.unwrap();
    let writer = fleet.process().with_wait(Duration::from_secs(3600)).unwrap();
    let _waiter = waits(&writer, Duration::ZERO);
    sleep(RETRY).await;
    let start = Instant::now();
    for closed in [true, false, true, false] {
        while lock.try_acquire_shared(&resource()).await.is_ok() == closed {
            sleep(RETRY).await;
            assert!(start.elapsed() < Duration::from_secs(90), "{closed}");
        }
    }
    let cycles = start.elapsed().as_secs();
    assert!((55..75).contains(&cycles), "{cycles}");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_a_wait_keeps_nobody_out() {
    let fleet = Fleet::started().await;
    let lock = fleet.process();
    let _part = lock.acquire_shared(&resource()).await.unwrap();
    assert!(lock.try_acquire(&resource()).await.is_err());
    let others = [named("other"), resource()];
    let brief = lock.with_wait(Duration::ZERO).unwrap();
    assert!(brief.acquire_all(&others).await.is_err());
    assert!(brief.acquire(&resource()).await.is_err());
    assert_eq!(drains(&fleet), 0);
    lock.try_acquire_shared(&resource()).await.unwrap().release().await.unwrap();
    // A lock that one holds alone has nothing to drain.
    let other = named("alone");
    let _alone = lock.acquire(&other).await.unwrap();
    assert!(brief.with_wait(RETRY * 5).unwrap().acquire(&other).await.is_err());
    assert_eq!(drains(&fleet), 0);
}
