//! A row that several share: each part by itself, and who waits for all of them to leave.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use fencing::lock::{RenewError, SharedLease};
use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::*;

/// When the lock may be shared again; anything but `Held` fails the test.
#[track_caller]
fn closed(outcome: Result<SharedLease, AcquireError>) -> Duration {
    match outcome {
        Err(AcquireError::Held { retry_after, .. }) => retry_after,
        other => panic!("not held: {other:?}"),
    }
}

fn brief(pool: &Pool<Db>, ttl: Duration) -> SqlLock<Db> {
    short(pool, ttl).renew(false).build().unwrap()
}

#[tokio::test]
async fn what_the_longest_part_leaves_behind_is_the_next_longest() {
    let place = ready().await;
    let (long, short) = (service(&place.pool), brief(&place.other(), LONG / 4));
    for shorter_first in [true, false] {
        let (kept, longest) = if shorter_first {
            let kept = short.acquire_shared(&resource()).await.unwrap();
            (kept, long.acquire_shared(&resource()).await.unwrap())
        } else {
            let longest = long.acquire_shared(&resource()).await.unwrap();
            (short.acquire_shared(&resource()).await.unwrap(), longest)
        };
        assert!(held(long.try_acquire(&resource()).await) > LONG / 2);
        assert_eq!(longest.release().await, Ok(Released::Released));
        let left = held(long.try_acquire(&resource()).await);
        assert!(left > LONG / 8 && left < LONG / 2, "{left:?}");
        assert_eq!(kept.release().await, Ok(Released::Released));
        let alone = long.try_acquire(&resource()).await.unwrap();
        assert_eq!(alone.release().await, Ok(Released::Released));
    }
}

#[tokio::test]
async fn a_part_that_nobody_renews_lapses_beside_one_that_is_renewed() {
    let place = ready().await;
    let (gone, kept) = (brief(&place.pool, Duration::from_secs(2)), service(&place.other()));
    let vanished = gone.acquire_shared(&resource()).await.unwrap();
    let held_on = kept.acquire_shared(&resource()).await.unwrap();
    assert_eq!(vanished.lost().await, Loss::Expired);
    sleep(Duration::from_millis(200)).await;
    held_on.renew().await.unwrap();
    assert!(vanished.renew().await.is_err());
    assert_eq!(vanished.release().await, Ok(Released::Lapsed));
    assert!(held(kept.try_acquire(&resource()).await) > LONG / 2);
    // It was the last: nothing of the other keeps the row closed.
    assert_eq!(held_on.release().await, Ok(Released::Released));
    drop(kept.try_acquire(&resource()).await.unwrap());
}

#[tokio::test]
async fn the_row_expires_with_its_last_part() {
    let place = ready().await;
    let lock = brief(&place.pool, Duration::from_secs(3));
    let first = lock.acquire_shared(&resource()).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let second = lock.acquire_shared(&resource()).await.unwrap();
    let (token, valid) = (second.token(), second.valid_for());
    assert_eq!(first.token(), token);
    let alone = service(&place.other()).acquire(&resource()).await.unwrap();
    assert!(first.valid_for().is_zero() && second.valid_for().is_zero(), "{valid:?}");
    assert!(alone.token() > token);
    for late in [first, second] {
        assert_eq!(late.release().await, Ok(Released::Lapsed));
    }
    held(lock.try_acquire(&resource()).await);
}

#[tokio::test]
async fn the_watchdog_keeps_a_part() {
    let place = ready().await;
    let lock = short(&place.pool, Duration::from_secs(9)).build().unwrap();
    let part = lock.acquire_shared(&resource()).await.unwrap();
    let long = async {
        for _ in 0..12 {
            sleep(Duration::from_millis(400)).await;
            held(service(&place.other()).try_acquire(&resource()).await);
        }
    };
    part.run(long).await.unwrap();
    assert_eq!(part.release().await, Ok(Released::Released));
}

#[tokio::test]
async fn a_part_that_is_released_early_stays_for_the_rest() {
    let place = ready().await;
    let least = builder(&place.pool).lock_at_least_for(LONG / 2).build().unwrap();
    let part = least.acquire_shared(&resource()).await.unwrap();
    assert_eq!(part.release().await, Ok(Released::Released));
    let left = held(service(&place.other()).try_acquire(&resource()).await);
    assert!(left > LONG / 4 && left <= LONG / 2, "{left:?}");
    let other = service(&place.other()).try_acquire_shared(&resource()).await.unwrap();
    assert_eq!(other.release().await, Ok(Released::Released));
    let left = held(service(&place.pool).try_acquire(&resource()).await);
    assert!(left > LONG / 4 && left <= LONG / 2, "{left:?}");
}

#[tokio::test]
async fn a_lock_delay_follows_a_part_whose_holder_vanished() {
    let place = ready().await;
    let lock = short(&place.pool, Duration::from_secs(1)).renew(false).lock_delay(LONG);
    let vanished = lock.build().unwrap().acquire_shared(&resource()).await.unwrap();
    assert_eq!(vanished.lost().await, Loss::Expired);
    std::mem::forget(vanished);
    assert!(held(service(&place.pool).try_acquire(&resource()).await) > LONG / 2);
}

/// As long as a lease may last.
#[tokio::test]
async fn a_part_may_last_for_a_day() {
    let place = ready().await;
    let day = Duration::from_secs(24 * 60 * 60);
    let lock = builder(&place.pool).ttl(day).lock_at_least_for(day).build().unwrap();
    let part = lock.acquire_shared(&resource()).await.unwrap();
    let joined = lock.acquire_shared(&resource()).await.unwrap();
    part.renew().await.unwrap();
    assert!(held(lock.try_acquire(&resource()).await) > day / 2);
    for part in [part, joined] {
        assert_eq!(part.release().await, Ok(Released::Released));
    }
    assert!(held(lock.try_acquire(&resource()).await) > day / 2);
}

#[tokio::test]
async fn who_joins_has_the_token_of_the_others_unless_the_mark_is_above_it() {
    let place = ready().await;
    let lock = service(&place.pool);
    let first = lock.acquire_shared(&resource()).await.unwrap();
    let token = first.token().get();
    mark(&place, i64::try_from(token).unwrap()).await;
    let second = lock.acquire_shared(&resource()).await.unwrap();
    assert_eq!(second.token(), first.token());
    mark(&place, i64::try_from(token + 5).unwrap()).await;
    let third = lock.acquire_shared(&resource()).await.unwrap();
    assert_eq!(third.token().get(), token + 6);
    for part in [first, second, third] {
        part.renew().await.unwrap();
        assert_eq!(part.release().await, Ok(Released::Released));
    }
    let alone = lock.try_acquire(&resource()).await.unwrap();
    assert!(alone.token().get() > token + 6);
    assert_eq!(alone.release().await, Ok(Released::Released));
    let next = lock.try_acquire_shared(&resource()).await.unwrap();
    assert!(next.token().get() > token + 7);
}

#[tokio::test]
async fn who_waits_to_hold_it_alone_keeps_others_from_joining() {
    let place = ready().await;
    let (lock, other) = (service(&place.pool), service(&place.other()));
    let part = lock.acquire_shared(&resource()).await.unwrap();
    // Who asks once keeps nobody out.
    held(other.try_acquire(&resource()).await);
    other.settle().await;
    let second = lock.try_acquire_shared(&resource()).await.unwrap();
    let waiter = tokio::spawn(async move { other.acquire(&resource()).await });
    let drained = async {
        while let Ok(joined) = lock.try_acquire_shared(&resource()).await {
            drop(joined);
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG / 2, drained).await.unwrap();
    // Those who are there may stay.
    part.renew().await.unwrap();
    closed(lock.try_acquire_shared(&resource()).await);
    assert_eq!(second.release().await, Ok(Released::Released));
    closed(lock.try_acquire_shared(&resource()).await);
    assert_eq!(part.release().await, Ok(Released::Released));
    let alone = waiter.await.unwrap().unwrap();
    assert_eq!(alone.release().await, Ok(Released::Released));
    // Nothing of the wait is left.
    drop(lock.try_acquire_shared(&resource()).await.unwrap());
}

/// With this delay a client that waits to hold it alone would keep others out for 45 s.
const SELDOM: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_client_that_gives_up_keeps_others_out_until_its_wait_is_over() {
    let place = ready().await;
    let lock = service(&place.pool);
    let part = lock.acquire_shared(&resource()).await.unwrap();
    let brief = builder(&place.other()).retry_delay(SELDOM).wait(Duration::from_millis(200));
    let brief = brief.build().unwrap();
    held(brief.acquire(&resource()).await);
    brief.settle().await;
    if let Err(error) = lock.try_acquire_shared(&resource()).await {
        let left = closed(Err(error));
        assert!(left <= SELDOM, "{left:?}");
    }
    let joined = lock.acquire_shared(&resource()).await.unwrap();
    assert_eq!(joined.token(), part.token());
}

#[tokio::test]
async fn a_drain_lasts_for_20_s_at_most_and_a_shorter_one_does_not_end_it() {
    let place = ready().await;
    let (lock, other) = (service(&place.pool), place.other());
    let _part = lock.acquire_shared(&resource()).await.unwrap();
    let drains_for = async || {
        let lasting = sqlx::query_scalar::<_, Option<i64>>(words::DRAINS_FOR);
        lasting.fetch_one(&place.pool).await.unwrap()
    };
    let long = builder(&other).retry_delay(SELDOM).wait(LONG).build().unwrap();
    let long = tokio::spawn(async move { long.acquire(&resource()).await });
    let drains = async {
        while drains_for().await.is_none() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG / 2, drains).await.unwrap();
    assert_eq!(drains_for().await, Some(20_000));
    long.abort();
    let brief = builder(&other).wait(Duration::from_millis(200)).build().unwrap();
    held(brief.acquire(&resource()).await);
    brief.settle().await;
    assert_eq!(drains_for().await, Some(20_000));
}

#[tokio::test]
async fn clients_that_wait_again_and_again_let_others_join_in_turn() {
    let place = ready().await;
    let (lock, other) = (service(&place.pool), place.other());
    let _part = lock.acquire_shared(&resource()).await.unwrap();
    let waits = || {
        let waiter = builder(&other).retry_delay(SELDOM).wait(LONG).build().unwrap();
        tokio::spawn(async move { waiter.acquire(&resource()).await })
    };
    let closes = async || {
        let end = async {
            while let Ok(joined) = lock.try_acquire_shared(&resource()).await {
                drop(joined);
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LONG / 2, end).await.unwrap();
    };
    let first = waits();
    closes().await;
    first.abort();
    // The time of those who wait is over, and that of the others is not.
    run(&place, words::DRAINED_EARLIER).await;
    let brief = builder(&other).retry_delay(SELDOM).wait(Duration::from_secs(1)).build().unwrap();
    held(brief.acquire(&resource()).await);
    brief.settle().await;
    drop(lock.try_acquire_shared(&resource()).await.unwrap());
    lock.settle().await;
    // Both are over.
    run(&place, words::DRAINED_EARLIER).await;
    let second = waits();
    closes().await;
    second.abort();
    // A clock that is set back does not keep them out for longer.
    run(&place, words::DRAINED_LATER).await;
    drop(lock.try_acquire_shared(&resource()).await.unwrap());
}

#[tokio::test]
async fn a_clock_that_is_set_back_closes_no_shared_lock_for_longer_than_a_lease() {
    let place = ready().await;
    let gone = brief(&place.pool, Duration::from_secs(2));
    for joins in [false, true] {
        std::mem::forget(gone.acquire_shared(&resource()).await.unwrap());
        run(&place, words::BACK).await;
        run(&place, words::PART_BACK).await;
        if joins {
            let joined = gone.acquire_shared(&resource()).await.unwrap();
            assert_eq!(joined.release().await, Ok(Released::Released));
            // The row is right again, with the part that is left.
            let expires_at = expires_at(&place).await;
            let latest = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
            let latest = latest.as_millis() + 3000;
            assert!(u128::try_from(expires_at).unwrap() <= latest, "{expires_at}, {latest}");
        }
        let left = held(gone.try_acquire(&resource()).await);
        assert!(left <= Duration::from_secs(3), "{left:?}");
        let next = service(&place.other()).acquire(&resource()).await.unwrap();
        assert_eq!(next.release().await, Ok(Released::Released));
    }
}

#[tokio::test]
async fn those_who_were_followed_are_told() {
    let place = ready().await;
    let (lock, other) =
        (short(&place.pool, Duration::from_secs(6)).build().unwrap(), service(&place.other()));
    let part = lock.acquire_shared(&resource()).await.unwrap();
    run(&place, words::EXPIRE).await;
    let alone = other.acquire(&resource()).await.unwrap();
    assert_eq!(timeout(LONG / 2, part.lost()).await, Ok(Loss::Superseded));
    assert_eq!(part.release().await, Ok(Released::Lapsed));
    assert_eq!(alone.release().await, Ok(Released::Released));
    // The other way round: readers after one who held it alone; and after readers.
    let alone = lock.acquire(&resource()).await.unwrap();
    run(&place, words::EXPIRE).await;
    let next = lock.acquire_shared(&resource()).await.unwrap();
    assert!(next.token() > alone.token());
    assert_eq!(timeout(LONG / 2, alone.lost()).await, Ok(Loss::Superseded));
    let last = loop {
        run(&place, words::EXPIRE).await;
        let last = other.acquire_shared(&resource()).await.unwrap();
        if last.token() > next.token() {
            break last;
        }
        // A renewal came in between, and it joined.
        assert_eq!(last.token(), next.token());
        last.release().await.unwrap();
    };
    assert_eq!(timeout(LONG / 2, next.lost()).await, Ok(Loss::Superseded));
    assert_eq!(last.release().await, Ok(Released::Released));
}

/// A client that knows nothing of parts leaves them there when it is granted the row.
#[tokio::test]
async fn parts_that_an_older_client_has_left_there_are_over() {
    let place = ready().await;
    let (lock, other) = (brief(&place.pool, LONG), service(&place.other()));
    let renewed = lock.acquire_shared(&resource()).await.unwrap();
    let released = lock.acquire_shared(&resource()).await.unwrap();
    run(&place, "UPDATE fencing_leases SET owner = 'older', token = token + 1").await;
    closed(other.try_acquire_shared(&resource()).await);
    assert!(matches!(renewed.renew().await, Err(RenewError::Lost(_))));
    assert_eq!(renewed.lost().await, Loss::Superseded);
    assert_eq!(released.release().await, Ok(Released::Lapsed));
    assert!(held(other.try_acquire(&resource()).await) > LONG / 2);
    // Who waits for the older client has nobody to keep out, and the next one begins again.
    held(other.with_wait(Duration::from_millis(200)).unwrap().acquire(&resource()).await);
    other.settle().await;
    run(&place, words::EXPIRE).await;
    let next = other.try_acquire_shared(&resource()).await.unwrap();
    assert!(next.token().get() > renewed.token().get() + 1);
    assert_eq!(next.release().await, Ok(Released::Released));
    drop(other.try_acquire(&resource()).await.unwrap());
}

#[tokio::test]
async fn an_operator_may_set_it_free() {
    let place = ready().await;
    let lock = short(&place.pool, Duration::from_secs(9)).build().unwrap();
    let part = lock.acquire_shared(&resource()).await.unwrap();
    run(&place, words::FREE).await;
    let lost = timeout(LONG / 2, part.lost()).await;
    assert_eq!(lost, Ok(Loss::Superseded), "it takes its part back");
    let next = lock.try_acquire_shared(&resource()).await.unwrap();
    assert!(next.token() > part.token());
}

/// Clients that share nothing but the database: one that holds the lock alone is alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_both_modes_keep_their_order() {
    let place = ready().await;
    // How many share it, or -1000 for one who is alone; the largest token, and that of one alone.
    let inside = AtomicI64::new(0);
    let (largest, alone, most) = (AtomicU64::new(0), AtomicU64::new(0), AtomicI64::new(0));
    let client = |number: usize| {
        let (lock, resource) = (builder(&place.other()).wait(LONG).build().unwrap(), resource());
        let (inside, largest, alone, most) = (&inside, &largest, &alone, &most);
        async move {
            for round in 0..12 {
                if (number + round).is_multiple_of(3) {
                    let lease = lock.acquire(&resource).await.unwrap();
                    assert_eq!(inside.fetch_sub(1000, Ordering::SeqCst), 0);
                    let token = lease.token().get();
                    assert!(largest.fetch_max(token, Ordering::SeqCst) < token, "{token}");
                    alone.fetch_max(token, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    assert_eq!(inside.fetch_add(1000, Ordering::SeqCst), -1000);
                    assert_eq!(lease.release().await, Ok(Released::Released));
                } else {
                    let lease = lock.acquire_shared(&resource).await.unwrap();
                    let others = inside.fetch_add(1, Ordering::SeqCst);
                    assert!(others >= 0, "beside one who is alone");
                    most.fetch_max(others + 1, Ordering::SeqCst);
                    let (token, before) = (lease.token().get(), alone.load(Ordering::SeqCst));
                    assert!(token > before, "{token} after {before}");
                    largest.fetch_max(token, Ordering::SeqCst);
                    sleep(Duration::from_millis(20)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    assert_eq!(lease.release().await, Ok(Released::Released));
                }
            }
        }
    };
    join_all((0..6).map(client)).await;
    assert!(most.load(Ordering::SeqCst) > 1, "nobody shared it");
    drop(service(&place.pool).try_acquire(&resource()).await.unwrap());
}
