//! A lock that several share, on nodes that fail, on simulated time.

use std::time::Duration;

use fencing::lock::{AcquireError, Loss, SharedLease};
use fencing::{Redlock, Resource};
use fencing_protocol::{Mode, Request};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::driver::fleet::{DRIFT, Fleet, TTL, resource};

const RETRY: Duration = Duration::from_millis(100);
/// The longest pause of one who waits.
const MAX_DELAY: Duration = Duration::from_millis(1500);

fn process(fleet: &Fleet) -> Redlock {
    fleet.service().retry_delay(RETRY).wait(TTL * 20).build().unwrap()
}

/// Waits in a process of its own, and returns when it had the lock alone.
fn waits(redlock: &Redlock) -> tokio::task::JoinHandle<Instant> {
    let redlock = redlock.clone();
    tokio::spawn(async move {
        let lease = redlock.acquire(&resource()).await.unwrap();
        let at = Instant::now();
        lease.release().await.unwrap();
        at
    })
}

fn drains(fleet: &Fleet) -> usize {
    let log = fleet.faults[0].log();
    log.iter().filter(|(request, _)| matches!(request, Request::Drain { .. })).count()
}

#[tokio::test(start_paused = true)]
async fn the_last_holder_that_leaves_notifies_a_waiter() {
    let fleet = Fleet::started().await;
    let first = process(&fleet).acquire_shared(&resource()).await.unwrap();
    let last = process(&fleet).acquire_shared(&resource()).await.unwrap();
    let elsewhere = process(&fleet);
    let waiter = waits(&elsewhere);
    sleep(RETRY * 20).await;
    first.release().await.unwrap();
    sleep(RETRY * 20).await;
    assert!(!waiter.is_finished());
    let start = Instant::now();
    last.release().await.unwrap();
    assert_eq!(waiter.await.unwrap() - start, Duration::ZERO);
}

/// Who was notified comes before a reader of the process that has released.
#[tokio::test(start_paused = true)]
async fn a_reader_lets_the_notified_writer_come_first() {
    let fleet = Fleet::started().await;
    let (here, elsewhere) = (process(&fleet), process(&fleet));
    for _ in 0..5 {
        let lease = here.acquire(&resource()).await.unwrap();
        let writer = elsewhere.clone();
        let waiter = tokio::spawn(async move {
            let lease = writer.acquire(&resource()).await.unwrap();
            let at = Instant::now();
            sleep(RETRY / 4).await;
            lease.release().await.unwrap();
            at
        });
        sleep(RETRY * 20).await;
        lease.release().await.unwrap();
        let start = Instant::now();
        let part = here.acquire_shared(&resource()).await.unwrap();
        assert_eq!(waiter.await.unwrap() - start, Duration::ZERO);
        part.release().await.unwrap();
    }
    // It has not split the votes before.
    let log = fleet.faults[0].log();
    let asked = log
        .iter()
        .filter(|(request, _)| matches!(request, Request::Acquire { mode: Mode::Shared, .. }));
    assert_eq!(asked.count(), 5);
}

/// Clients that come after that wait as one, and not one after another, whether hints arrive or not.
#[tokio::test(start_paused = true)]
async fn readers_wait_together_for_the_notified_writer() {
    let fleet = Fleet::started().await;
    let (here, elsewhere) = (process(&fleet), process(&fleet));
    let lease = here.acquire(&resource()).await.unwrap();
    let waiter = waits(&elsewhere);
    sleep(RETRY * 20).await;
    lease.release().await.unwrap();
    waiter.await.unwrap();
    fleet.faults.iter().for_each(|faults| faults.lose_notifications(true));
    let start = Instant::now();
    let readers: Vec<_> = (0..50)
        .map(|_| {
            let here = here.clone();
            tokio::spawn(async move {
                let part = here.acquire_shared(&resource()).await.unwrap();
                (Instant::now(), part)
            })
        })
        .collect();
    for reader in readers {
        let (at, _part) = reader.await.unwrap();
        assert!(at - start <= RETRY * 2, "{:?}", at - start);
    }
}

/// Each one that is let in has the next one notified.
#[tokio::test(start_paused = true)]
async fn a_release_lets_all_in_who_wait_to_share() {
    let fleet = Fleet::started().await;
    let lease = process(&fleet).acquire(&resource()).await.unwrap();
    let processes: Vec<Redlock> = (0..10).map(|_| process(&fleet)).collect();
    let mut readers = Vec::new();
    for elsewhere in &processes {
        let elsewhere = elsewhere.clone();
        readers.push(tokio::spawn(async move {
            let lease = elsewhere.acquire_shared(&resource()).await.unwrap();
            (Instant::now(), lease)
        }));
    }
    sleep(MAX_DELAY * 4).await;
    let (token, start) = (lease.token(), Instant::now());
    lease.release().await.unwrap();
    let mut parts = Vec::new();
    for reader in readers {
        let (at, part) = reader.await.unwrap();
        assert_eq!(at - start, Duration::ZERO);
        parts.push(part);
    }
    // The counts agree, so all of them have one token.
    let tokens: Vec<_> = parts.iter().map(SharedLease::token).collect();
    assert!(tokens.iter().all(|it| *it == tokens[0] && *it > token), "{tokens:?}");
}

/// One that has waited longer than the one which closed the lock is notified first, may not join, and passes the
/// hint on.
#[tokio::test(start_paused = true)]
async fn one_that_may_not_join_passes_the_hint_on() {
    let fleet = Fleet::started().await;
    let part = process(&fleet).acquire_shared(&resource()).await.unwrap();
    let dropped = process(&fleet);
    assert!(timeout(RETRY * 3, dropped.acquire(&resource())).await.is_err());
    let (reader, writer) = (process(&fleet), process(&fleet));
    let shares = {
        let reader = reader.clone();
        tokio::spawn(async move {
            let lease = reader.acquire_shared(&resource()).await.unwrap();
            lease.release().await.unwrap();
            Instant::now()
        })
    };
    sleep(RETRY).await;
    let waiter = waits(&writer);
    sleep(MAX_DELAY * 4).await;
    assert!(!shares.is_finished());
    let start = Instant::now();
    part.release().await.unwrap();
    assert_eq!(waiter.await.unwrap() - start, Duration::ZERO);
    shares.await.unwrap();
}

/// A client that waits to hold it alone keeps others from joining until its wait is over.
#[tokio::test(start_paused = true)]
async fn a_client_that_gives_up_lets_others_join_again() {
    let fleet = Fleet::started().await;
    let lock = process(&fleet);
    let _part = lock.acquire_shared(&resource()).await.unwrap();
    let brief = process(&fleet).with_wait(RETRY * 3).unwrap();
    let start = Instant::now();
    assert!(matches!(brief.acquire(&resource()).await, Err(AcquireError::Held { .. })));
    assert!(drains(&fleet) > 0);
    sleep_until(start + RETRY * 4).await;
    drop(lock.try_acquire_shared(&resource()).await.unwrap());
}

/// Clients that wait to hold it alone keep others out for 20 s, and let them join for as long.
#[tokio::test(start_paused = true)]
async fn clients_that_wait_on_and_on_let_others_join_in_turn() {
    let fleet = Fleet::started().await;
    let lock = process(&fleet);
    let _part = lock.acquire_shared(&resource()).await.unwrap();
    let writer = process(&fleet).with_wait(Duration::from_secs(3600)).unwrap();
    let _waiter = waits(&writer);
    sleep(RETRY).await;
    let start = Instant::now();
    let joins = async || lock.try_acquire_shared(&resource()).await.is_ok();
    for closed in [true, false, true, false] {
        while joins().await == closed {
            sleep(RETRY).await;
            assert!(start.elapsed() < Duration::from_secs(90), "{closed}");
        }
    }
    let cycles = start.elapsed().as_secs();
    assert!((55..75).contains(&cycles), "{cycles}");
}

/// One attempt is no wait: it keeps nobody out.
#[tokio::test(start_paused = true)]
async fn an_attempt_without_a_wait_keeps_nobody_out() {
    let fleet = Fleet::started().await;
    let lock = process(&fleet);
    let _part = lock.acquire_shared(&resource()).await.unwrap();
    assert!(lock.try_acquire(&resource()).await.is_err());
    let others = [Resource::new("other").unwrap(), resource()];
    let brief = lock.with_wait(Duration::ZERO).unwrap();
    assert!(brief.acquire_all(&others).await.is_err());
    assert!(brief.acquire(&resource()).await.is_err());
    assert_eq!(drains(&fleet), 0);
    lock.try_acquire_shared(&resource()).await.unwrap().release().await.unwrap();
    // A lock that one holds alone has nothing to drain.
    let other = Resource::new("alone").unwrap();
    let _alone = lock.acquire(&other).await.unwrap();
    assert!(brief.with_wait(RETRY * 5).unwrap().acquire(&other).await.is_err());
    assert_eq!(drains(&fleet), 0);
}

/// Each part is lost by itself, at its deadline.
#[tokio::test(start_paused = true)]
async fn a_part_without_a_majority_is_lost_and_the_others_stay() {
    let fleet = Fleet::started().await;
    let (cut, well) = (process(&fleet), fleet.past_the_faults().build().unwrap());
    let lost = cut.acquire_shared(&resource()).await.unwrap();
    let part = well.acquire_shared(&resource()).await.unwrap();
    let start = Instant::now();
    for faults in &fleet.faults[..2] {
        faults.hang();
    }
    assert_eq!(lost.lost().await, Loss::Expired);
    assert!(start.elapsed() <= TTL - DRIFT, "{:?}", start.elapsed());
    sleep(TTL).await;
    assert!(!part.valid_for().is_zero());
    // Its part is over on the nodes as well: the last one that leaves frees the lock.
    let found = well.try_acquire(&resource()).await;
    assert!(matches!(found, Err(AcquireError::Held { .. })), "{found:?}");
    part.release().await.unwrap();
    let next = well.try_acquire(&resource()).await.unwrap();
    assert!(next.token() > lost.token());
}

/// A part is set again on a node that has forgotten it, beside others there.
#[tokio::test(start_paused = true)]
async fn a_renewal_heals_a_part() {
    let fleet = Fleet::started().await;
    let lock = process(&fleet);
    let first = lock.acquire_shared(&resource()).await.unwrap();
    let second = process(&fleet).acquire_shared(&resource()).await.unwrap();
    for node in &fleet.nodes {
        node.expire(&resource());
        sleep(TTL).await;
    }
    assert!(!first.valid_for().is_zero() && !second.valid_for().is_zero());
    first.release().await.unwrap();
    assert!(lock.try_acquire(&resource()).await.is_err());
    second.release().await.unwrap();
    lock.try_acquire(&resource()).await.unwrap().release().await.unwrap();
}
