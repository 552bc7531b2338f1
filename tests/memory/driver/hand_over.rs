//! Who waits in the process that releases is woken. While others wait elsewhere, a process hands the lock on within
//! itself for a turn, and nobody elsewhere is notified.

use std::sync::Mutex;

use tokio::task::JoinSet;

use crate::driver::fleet::*;

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
    for other in others {
        other.await.unwrap();
    }
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

/// Two processes with this many callers each, who ask again and again for that time. Returns how many leases each had
/// without a break, in their order, and the longest wait.
async fn turns(fleet: &Fleet, many: usize, hold: Duration, span: Duration) -> (Vec<usize>, Duration) {
    turns_of(fleet, many, (hold, span), false).await
}

/// The same, where other processes may have the ticket of each lease.
async fn turns_of(
    fleet: &Fleet,
    many: usize,
    (hold, span): (Duration, Duration),
    has_ticket: bool,
) -> (Vec<usize>, Duration) {
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
                    assert!(!has_ticket || lease.ticket().is_some());
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
async fn short_holds_follow_one_another_within_a_process() {
    let fleet = Fleet::started().await;
    let (turns, longest) = turns(&fleet, 4, Duration::from_millis(1), Duration::from_secs(5)).await;
    let holds: usize = turns.iter().sum();
    // The first turns are spent on finding out that others wait.
    assert!(turns.len() > 100 && holds / turns.len() >= MOST / 2, "{turns:?}");
    let over = turns.iter().filter(|turn| **turn > MOST).count();
    assert!(over <= turns.len() / 10, "{turns:?}");
    // Of seven who are ahead each holds it 20 times at most.
    assert!(longest < Duration::from_millis(7 * 20), "{longest:?}");
    // Within a turn nobody is notified, and so nobody notes a wait.
    let ran = ran(&fleet.faults[0]);
    let notified = ran.iter().filter(|name| **name == "release").count();
    assert!(notified <= holds / 4, "{notified} of {holds}");
}

#[tokio::test(start_paused = true)]
async fn leases_with_a_ticket_have_the_same_turns() {
    let fleet = Fleet::started().await;
    let (turns, longest) = turns_of(&fleet, 4, (Duration::from_millis(1), Duration::from_secs(5)), true).await;
    assert!(turns.len() > 100 && turns.iter().sum::<usize>() / turns.len() >= MOST / 2, "{turns:?}");
    assert!(longest < Duration::from_millis(7 * 20), "{longest:?}");
    // Within a turn nobody is notified. A node that had lost the lock learns of each release as well.
    let ran = ran(&fleet.faults[0]);
    assert!(ran.windows(2).any(|two| two == ["shorten", "retire"]), "{ran:?}");
}

/// Where nobody else of the process waits, each release is notified, and two processes take turns.
#[tokio::test(start_paused = true)]
async fn who_is_alone_has_no_turn() {
    let fleet = Fleet::started().await;
    let (_, longest) = turns(&fleet, 1, RETRY * 5, RETRY * 750).await;
    assert!(longest < RETRY * 15, "{longest:?}");
    let (turns, _) = turns(&fleet, 1, Duration::from_millis(1), Duration::from_secs(5)).await;
    let long = turns.iter().filter(|turn| **turn > 1).count();
    assert!(turns.len() > 100 && long <= turns.len() / 10, "{turns:?}");
}

/// A turn is over after 20 ms: there is nothing to gain. Then the one who has waited longest comes first, and of four
/// callers of one process no more than four may follow one another.
#[tokio::test(start_paused = true)]
async fn long_holds_go_to_the_one_who_has_waited_longest() {
    let fleet = Fleet::started().await;
    let (turns, longest) = turns(&fleet, 4, RETRY, RETRY * 200).await;
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
