//! Between processes the nodes notify the one who has waited longest that a lock was released. It is a
//! hint: lost, repeated or forged, it costs the pause of a poll, and no more.

use tokio::time::sleep_until;

use crate::driver::fleet::*;
use crate::driver::wire::Wire;

/// Of a lease of one resource, and of several: one waits for one of them.
#[tokio::test(start_paused = true)]
async fn a_release_notifies_a_waiter_elsewhere() {
    let fleet = Fleet::started().await;
    let several = [named("other"), resource()];
    for of in [&several[1..], &several] {
        let lease = fleet.process().acquire_all(of).await.unwrap();
        let waiter = waits(&fleet.process(), Duration::ZERO);
        sleep(RETRY * 20).await;
        let start = Instant::now();
        lease.release().await.unwrap();
        assert_eq!(waiter.await.unwrap() - start, Duration::ZERO, "{of:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_longest_waiter_is_notified_first() {
    let fleet = Fleet::started().await;
    let lease = fleet.process().acquire(&resource()).await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..20 {
        waiters.push(waits(&fleet.process(), RETRY / 10));
        sleep(Duration::from_millis(1)).await;
    }
    sleep(MAX_DELAY * 4).await;
    let asked = fleet.acquires();
    let start = Instant::now();
    lease.release().await.unwrap();
    let mut turns = Vec::new();
    for (place, waiter) in waiters.into_iter().enumerate() {
        turns.push((waiter.await.unwrap() - start, place));
    }
    turns.sort_unstable();
    // One whose own look falls between a release and the notified client comes first: seldom.
    let overtakes = turns.windows(2).filter(|pair| pair[0].1 > pair[1].1).count();
    assert!(overtakes <= 1, "{turns:?}");
    // The next one comes at once.
    for (turn, (time, place)) in turns.iter().enumerate() {
        assert_eq!(*time, RETRY / 10 * turn as u32, "{place}");
    }
    // Besides, waiters ask about once a second.
    let asked = fleet.acquires() - asked;
    assert!(asked <= 20 + 10, "{asked}");
}

#[tokio::test(start_paused = true)]
async fn waiters_ask_seldom() {
    let fleet = Fleet::started().await;
    let _lease = fleet.process().acquire(&resource()).await.unwrap();
    let waiters: Vec<_> = (0..10).map(|_| waits(&fleet.process(), Duration::ZERO)).collect();
    sleep(TTL).await;
    let asked = fleet.acquires();
    let time = Duration::from_secs(60);
    sleep(time).await;
    let each = (fleet.acquires() - asked) / waiters.len();
    assert!(each <= 120, "{each} in {time:?}");
}

/// Hints that get lost cost one pause of the poll.
#[tokio::test(start_paused = true)]
async fn without_hints_a_release_is_found_out() {
    let fleet = Fleet::started().await;
    fleet.faults.iter().for_each(|faults| faults.lose_notifications(true));
    let lease = fleet.process().acquire(&resource()).await.unwrap();
    let waiter = waits(&fleet.process(), Duration::ZERO);
    sleep(TTL * 2).await;
    let start = Instant::now();
    lease.release().await.unwrap();
    let waited = waiter.await.unwrap() - start;
    assert!(waited > Duration::ZERO && waited <= MAX_DELAY, "{waited:?}");
}

/// However many hints are forged, they do not have a client ask more often than the poll once did.
#[tokio::test(start_paused = true)]
async fn forged_hints_raise_no_storm() {
    let fleet = Fleet::started().await;
    let _lease = fleet.process().acquire(&resource()).await.unwrap();
    let _waiter = waits(&fleet.process(), Duration::ZERO);
    sleep(TTL).await;
    fleet.faults.iter().for_each(|faults| faults.forge_notifications(true));
    sleep(RETRY * 20).await;
    let asked = fleet.acquires();
    sleep(RETRY * 100).await;
    let asked = fleet.acquires() - asked;
    assert!(asked <= 110, "{asked}");
}

/// The holder is gone: its lock ends by itself. All ask within a retry delay of that, one gets it, and
/// from then on each notifies the next.
async fn crash(services: usize) {
    const WAITERS: usize = 64;
    let fleet = Fleet::started().await;
    let (delay, hold) = (Duration::from_secs(2), Duration::from_secs(1));
    let settings = || fleet.service().retry_delay(RETRY).wait(TTL * 20).lock_delay(delay);
    let holder = settings().renew(false).build().unwrap();
    let start = Instant::now();
    std::mem::forget(holder.acquire(&resource()).await.unwrap());
    let processes: Vec<Redlock> = (0..services).map(|_| settings().build().unwrap()).collect();
    let waiters: Vec<_> = (0..WAITERS).map(|it| waits(&processes[it % services], hold)).collect();
    let end = start + TTL + delay;
    sleep_until(end - RETRY).await;
    let asked = fleet.acquires();
    sleep_until(end + RETRY * 3).await;
    let asked = fleet.acquires() - asked;
    assert!(asked <= services * 4, "{asked}");
    let mut times = Vec::new();
    for waiter in waiters {
        times.push(waiter.await.unwrap());
    }
    times.sort_unstable();
    let last = end + MAX_DELAY;
    assert!(times[0] >= end && times[0] <= last, "{:?}", times[0] - start);
    for pair in times.windows(2) {
        let pause = pair[1] - pair[0];
        assert!(pause >= hold && pause <= hold + MAX_DELAY, "{pause:?}");
    }
    let whole = times[WAITERS - 1] - times[0];
    assert!(whole <= hold * WAITERS as u32, "{whole:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_lets_one_of_64_in_by_processes_or_by_tasks() {
    crash(64).await;
    crash(1).await;
}

/// The pauses of one contender while another holds the lock: they grow, and have a random part, so that contenders that
/// met once do not meet each time. None is longer than the lock lasts.
async fn pauses(from: u64) -> Vec<Duration> {
    let clock = TokioClock::new();
    let node = MemoryNode::with_clock("node", clock.clone());
    let holder = Redlock::builder().nodes([node.clone()]).clock(clock.clone()).build().unwrap();
    let _lease = holder.acquire(&resource()).await.unwrap();
    let wire = Wire::new(node);
    let contender = Redlock::builder().nodes([wire.clone()]).clock(clock).ttl(TTL);
    let contender = contender.retry_delay(RETRY).wait(RETRY * 120).build().unwrap();
    seed(Some(from));
    assert!(contender.acquire(&resource()).await.is_err());
    seed(None);
    let acquires = wire.state().acquires.clone();
    let pauses: Vec<Duration> = acquires.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.len() > 20, "{pauses:?}");
    pauses
}

#[tokio::test(start_paused = true)]
async fn pauses_begin_around_the_retry_delay_grow_and_differ() {
    let (pauses, others) = (pauses(1).await, pauses(2).await);
    assert_ne!(pauses, others, "two contenders");
    let tick = Duration::from_millis(1);
    for (number, pause) in pauses.iter().enumerate().take(20) {
        let delay = RETRY * (1 + number as u32).min(2);
        assert!(*pause >= delay / 2 && *pause <= delay * 3 / 2 + tick, "{pauses:?}");
    }
    let late = &pauses[3..20];
    assert!(late.iter().any(|pause| *pause < RETRY * 2 - tick * 10), "{pauses:?}");
    assert!(late.iter().any(|pause| *pause > RETRY * 2 + tick * 10), "{pauses:?}");
}
