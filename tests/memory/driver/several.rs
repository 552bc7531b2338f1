//! Several resources in one call; a lock that several share, on nodes that fail.

use fencing::lock::SharedLease;
use tokio::time::sleep_until;

use crate::driver::fleet::*;

fn list(names: &[&str]) -> Vec<Resource> {
    names.iter().map(|name| named(name)).collect()
}

/// What a node has run for several, by name and how many locks it was about.
fn ran(faults: &Faults) -> Vec<(&'static str, usize)> {
    let log = faults.log();
    let several = log.iter().map(|(request, _)| request);
    let several = several.filter(|request| matches!(request, Request::Several(_)));
    several.map(|it| (about(&it.parts()[0]).unwrap().0, it.parts().len())).collect()
}

/// How often the first node was asked for several.
fn acquires(fleet: &Fleet) -> usize {
    ran(&fleet.faults[0]).iter().filter(|(name, _)| *name == "acquire").count()
}

#[tokio::test(start_paused = true)]
async fn all_take_one_request_per_node() {
    let fleet = Fleet::started().await;
    let redlock = fleet.service().build().unwrap();
    let lease = redlock.acquire_all(&list(&["c", "a", "b", "a"])).await.unwrap();
    sleep(TTL / 2).await;
    assert!(lease.valid_for() > TTL / 2);
    assert_eq!(lease.release().await, Ok(Released::Released));
    for node in &fleet.faults {
        assert_eq!(ran(node), [("acquire", 3), ("renew", 3), ("release", 3)]);
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_lost_as_a_whole() {
    let fleet = Fleet::started().await;
    let redlock = fleet.service().build().unwrap();
    let lease = redlock.acquire_all(&list(&["a", "b"])).await.unwrap();
    fleet.nodes.iter().for_each(|node| node.expire(&named("b")));
    let other = fleet.past_the_faults().build().unwrap();
    let next = other.try_acquire(&named("b")).await.unwrap();
    assert!(Some(next.token()) > lease.token_of(&named("b")));
    assert_eq!(lease.lost().await, Loss::Superseded);
    // It takes back what is its own, and nothing else.
    assert_eq!(lease.release().await, Ok(Released::Lapsed));
    other.try_acquire(&named("a")).await.unwrap().release().await.unwrap();
    assert!(!next.valid_for().is_zero());
    assert_held(redlock.try_acquire(&named("b")).await);
}

#[tokio::test(start_paused = true)]
async fn a_release_wakes_the_waiters_for_a_list() {
    let fleet = Fleet::started().await;
    let redlock = fleet.service().retry_delay(RETRY).build().unwrap();
    for all in [false, true] {
        let [one, two] = [named("a"), named("b")];
        let leases = [redlock.acquire(&one).await.unwrap(), redlock.acquire(&two).await.unwrap()];
        let waiter = tokio::spawn({
            let (redlock, list) = (redlock.clone(), [one, two]);
            async move {
                match all {
                    true => drop(redlock.acquire_all(&list).await.unwrap()),
                    false => drop(redlock.acquire_any(&list).await.unwrap()),
                }
                Instant::now()
            }
        });
        sleep(RETRY * 10).await;
        let [first, second] = leases;
        first.release().await.unwrap();
        if all {
            settle().await;
            second.release().await.unwrap();
        }
        let freed = Instant::now();
        assert_eq!(waiter.await.unwrap(), freed);
        redlock.settle().await;
    }
}

/// Also where no hint of a node arrives.
#[tokio::test(start_paused = true)]
async fn a_release_of_a_list_wakes_who_waits_for_one_of_it() {
    let fleet = Fleet::started().await;
    fleet.faults.iter().for_each(|faults| faults.lose_notifications(true));
    let redlock = fleet.process();
    for dropped in [false, true] {
        let lease = redlock.acquire_all(&list(&["a", "b"])).await.unwrap();
        let waiter = redlock.clone();
        let waiter = tokio::spawn(async move { waiter.acquire(&named("b")).await });
        sleep(RETRY * 10).await;
        let start = Instant::now();
        match dropped {
            true => drop(lease),
            false => drop(lease.release().await.unwrap()),
        }
        drop(waiter.await.unwrap().unwrap());
        assert_eq!(start.elapsed(), Duration::ZERO, "dropped: {dropped}");
    }
}

/// A wait for any of a list ends in time, however long the list is; its first round asks for all of them.
#[tokio::test(start_paused = true)]
async fn a_wait_for_any_is_over_in_time() {
    let fleet = Fleet::started().await;
    let names: Vec<Resource> = (0..20).map(|number| named(&number.to_string())).collect();
    let holder = fleet.past_the_faults().build().unwrap();
    let _held = holder.acquire_all(&names).await.unwrap();
    let (each, wait) = (BUDGET / 2, BUDGET * 12);
    fleet.faults.iter().for_each(|faults| faults.delay_replies(each));
    let redlock = fleet.service().retry_delay(RETRY / 10).build().unwrap();
    for (wait, least) in [(wait, wait - RETRY), (Duration::ZERO, each * 20)] {
        let start = Instant::now();
        assert!(redlock.with_wait(wait).unwrap().acquire_any(&names).await.is_err());
        let took = start.elapsed();
        assert!(took >= least && took <= wait.max(each * 20) + BUDGET * 3, "{took:?}");
    }
}

const LISTS: usize = 50;

async fn waiting(redlock: &Redlock) -> Vec<JoinHandle<()>> {
    let waits = |number: usize| {
        let redlock = redlock.clone();
        tokio::spawn(async move {
            let wanted = [named("shared"), named(&number.to_string())];
            redlock.acquire_all(&wanted).await.unwrap().release().await.unwrap();
        })
    };
    let waiting = (0..LISTS).map(waits).collect();
    settle().await;
    waiting
}

#[tokio::test(start_paused = true)]
async fn a_release_wakes_one_of_many_lists() {
    let fleet = Fleet::started().await;
    let redlock = fleet.process().with_wait(TTL * 100).unwrap();
    let holder = redlock.acquire(&named("shared")).await.unwrap();
    let waiting = waiting(&redlock).await;
    assert_eq!(acquires(&fleet), LISTS);
    let start = Instant::now();
    holder.release().await.unwrap();
    try_join_all(waiting).await.unwrap();
    let (asked, took) = (acquires(&fleet), start.elapsed());
    assert!(asked < LISTS * 3, "{asked}");
    assert!(took < RETRY * 4, "{took:?}");
}

/// They ask together as often as one would, and find out that a lock of another process is free. Many at one time
/// would keep busy servers from answering any, also where there is no quorum.
#[tokio::test(start_paused = true)]
async fn many_lists_that_wait_ask_as_often_as_one() {
    for quorum in [true, false] {
        let fleet = Fleet::started().await;
        let redlock = fleet.process().with_wait(TTL * 100).unwrap();
        let holder = fleet.process().acquire(&named("shared")).await.unwrap();
        if !quorum {
            fleet.faults[1..].iter().for_each(Faults::hang);
        }
        let waiting = waiting(&redlock).await;
        sleep(RETRY * 100).await;
        let asked = acquires(&fleet);
        assert!((LISTS..LISTS * 5).contains(&asked), "quorum: {quorum}, {asked}");
        if quorum {
            holder.release().await.unwrap();
            try_join_all(waiting).await.unwrap();
        }
    }
}

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

/// One that has waited longer than the one that closed the lock is notified first, may not join, and passes it on.
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
