//! Between processes the nodes notify the one who has waited longest that a lock was released. It is a
//! hint: lost, repeated or forged, it costs the pause of a poll, and no more. Who waits in the process that releases is
//! woken; while others wait elsewhere, it hands the lock on within itself for a turn, and nobody elsewhere is notified.

use std::sync::Mutex;

use tokio::task::JoinSet;
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

/// However many hints are forged, they do not have a client ask more often than the poll once did.
#[tokio::test(start_paused = true)]
async fn waiters_ask_seldom_and_forged_hints_raise_no_storm() {
    let fleet = Fleet::started().await;
    let _lease = fleet.process().acquire(&resource()).await.unwrap();
    let mut waiters: Vec<_> = (0..10).map(|_| waits(&fleet.process(), Duration::ZERO)).collect();
    sleep(TTL).await;
    for (forged, time, most) in [(false, Duration::from_secs(60), 120), (true, RETRY * 100, 110)] {
        if forged {
            waiters.drain(1..).for_each(|waiter| waiter.abort());
        }
        fleet.faults.iter().for_each(|faults| faults.forge_notifications(forged));
        sleep(RETRY * 20).await;
        let asked = fleet.acquires();
        sleep(time).await;
        let each = (fleet.acquires() - asked) / waiters.len();
        assert!(each <= most, "{each} in {time:?}, forged: {forged}");
    }
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

/// The holder is gone: its lock ends by itself. All ask within a retry delay, one gets it, and each notifies the next.
#[tokio::test(start_paused = true)]
async fn a_crash_lets_one_of_64_in_by_processes_or_by_tasks() {
    const WAITERS: usize = 64;
    for services in [64, 1] {
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
        let mut times = try_join_all(waiters).await.unwrap();
        times.sort_unstable();
        assert!(times[0] >= end && times[0] <= end + MAX_DELAY, "{:?}", times[0] - start);
        for pair in times.windows(2) {
            let pause = pair[1] - pair[0];
            assert!(pause >= hold && pause <= hold + MAX_DELAY, "{pause:?}");
        }
        let whole = times[WAITERS - 1] - times[0];
        assert!(whole <= hold * WAITERS as u32, "{whole:?}");
    }
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

#[tokio::test(start_paused = true)]
async fn many_follow_one_another() {
    let fleet = Fleet::started().await;
    let redlock = fleet.process();
    let lease = redlock.acquire(&resource()).await.unwrap();
    let others: Vec<_> = (0..50).map(|_| waits(&redlock, Duration::from_millis(1))).collect();
    sleep(RETRY * 10).await;
    let asked = fleet.acquires();
    let start = Instant::now();
    drop(lease);
    try_join_all(others).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_millis(50));
    // Nobody asks while it is known to be held here.
    assert_eq!(fleet.acquires() - asked, 50);
}

/// The acquirer asks for all waiters. Whether its own wait is shorter or longer than theirs, they get its error.
#[tokio::test(start_paused = true)]
async fn waiters_get_the_error_of_the_acquirer() {
    for seconds in [2, 5] {
        let fleet = Fleet::of(5).await;
        let _held = fleet.connected().await.acquire(&resource()).await.unwrap();
        let redlock = fleet.service().wait(Duration::from_secs(2)).build().unwrap();
        let acquirer = redlock.with_wait(Duration::from_secs(seconds)).unwrap();
        let before = ran(&fleet.faults[0]).len();
        let waiters = (0..200).map(|number| {
            let redlock = if number == 0 { acquirer.clone() } else { redlock.clone() };
            tokio::spawn(async move { redlock.acquire(&resource()).await })
        });
        for waiter in waiters.collect::<Vec<_>>() {
            assert_held(waiter.await.unwrap());
        }
        // Each attempt is a request and its release; there is a renewal as well.
        let asked = ran(&fleet.faults[0]).len() - before;
        assert!(asked < 2 * 5000 / 50 + 5, "{asked} requests");
    }
}

/// The most leases in one turn.
const MOST: usize = 16;

/// Two processes with this many callers each, who ask again and again for that time; other processes may have the
/// ticket of each lease. Returns how many leases each had without a break, in their order, and the longest wait.
async fn turns(fleet: &Fleet, many: usize, hold: Duration, span: Duration, has_ticket: bool) -> (Vec<usize>, Duration) {
    let held = Arc::<Mutex<Vec<usize>>>::default();
    let end = Instant::now() + span;
    let mut callers = JoinSet::new();
    for number in 0..2 {
        let redlock = fleet.process();
        for _ in 0..many {
            let (redlock, held) = (redlock.clone(), Arc::clone(&held));
            callers.spawn(async move {
                let mut longest = Duration::ZERO;
                while Instant::now() < end {
                    let asked = Instant::now();
                    let lease = redlock.acquire(&resource()).await.unwrap();
                    longest = longest.max(asked.elapsed());
                    held.lock().unwrap().push(number);
                    drop(has_ticket.then(|| lease.ticket()));
                    sleep(hold).await;
                    lease.release().await.unwrap();
                }
                longest
            });
        }
    }
    let longest = callers.join_all().await.into_iter().max().unwrap();
    let held = held.lock().unwrap();
    let turns = held.chunk_by(|one, next| one == next).map(<[usize]>::len).collect();
    (turns, longest)
}

#[tokio::test(start_paused = true)]
async fn short_holds_follow_one_another_within_a_process_also_with_a_ticket() {
    for has_ticket in [false, true] {
        let fleet = Fleet::started().await;
        let (turns, longest) = turns(&fleet, 4, Duration::from_millis(1), Duration::from_secs(5), has_ticket).await;
        let holds: usize = turns.iter().sum();
        // The first turns are spent on finding out that others wait.
        assert!(turns.len() > 100 && holds / turns.len() >= MOST / 2, "{turns:?}");
        // Of seven who are ahead each holds it 20 times at most.
        assert!(longest < Duration::from_millis(7 * 20), "{longest:?}");
        // Within a turn nobody is notified, and so nobody notes a wait.
        let ran = ran(&fleet.faults[0]);
        if has_ticket {
            // A node that had lost the lock learns of each release as well.
            assert!(ran.windows(2).any(|two| two == ["shorten", "retire"]), "{ran:?}");
            continue;
        }
        let over = turns.iter().filter(|turn| **turn > MOST).count();
        assert!(over <= turns.len() / 10, "{turns:?}");
        let notified = ran.iter().filter(|name| **name == "release").count();
        assert!(notified <= holds / 4, "{notified} of {holds}");
    }
}

/// Where nobody else of the process waits, each release is notified, and two processes take turns.
#[tokio::test(start_paused = true)]
async fn who_is_alone_has_no_turn() {
    let fleet = Fleet::started().await;
    let (_, longest) = turns(&fleet, 1, RETRY * 5, RETRY * 750, false).await;
    assert!(longest < RETRY * 15, "{longest:?}");
    let (turns, _) = turns(&fleet, 1, Duration::from_millis(1), Duration::from_secs(5), false).await;
    let long = turns.iter().filter(|turn| **turn > 1).count();
    assert!(turns.len() > 100 && long <= turns.len() / 10, "{turns:?}");
}

/// A turn is over after 20 ms: there is nothing to gain. Then the one who has waited longest comes first, and of four
/// callers of one process no more than four may follow one another.
#[tokio::test(start_paused = true)]
async fn long_holds_go_to_the_one_who_has_waited_longest() {
    let fleet = Fleet::started().await;
    let (turns, longest) = turns(&fleet, 4, RETRY, RETRY * 200, false).await;
    let long = turns.iter().filter(|turn| **turn > 4).count();
    assert!(long <= turns.len() / 10, "{turns:?}");
    assert!(longest <= RETRY * 7 * 3, "{longest:?}");
}

/// A hold may be longer than the waiters of other processes are remembered.
#[tokio::test(start_paused = true)]
async fn holds_of_fifteen_seconds_go_to_other_processes_too() {
    let fleet = Fleet::started().await;
    let hold = Duration::from_secs(15);
    let (busy, other) = (fleet.process(), fleet.process());
    let mut callers = JoinSet::new();
    for _ in 0..3 {
        let busy = busy.clone();
        callers.spawn(async move {
            loop {
                let lease = busy.acquire(&resource()).await.unwrap();
                sleep(hold).await;
                lease.release().await.unwrap();
            }
        });
    }
    sleep(hold / 2).await;
    for _ in 0..3 {
        let asked = Instant::now();
        let lease = other.acquire(&resource()).await.unwrap();
        // Those of the other process who have waited for longer come first.
        assert!(asked.elapsed() <= hold * 4, "{:?}", asked.elapsed());
        sleep(hold).await;
        lease.release().await.unwrap();
    }
}
