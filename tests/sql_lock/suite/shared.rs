//! A row that several share: each part by itself, and who waits for all of them to leave.

use super::*;

#[tokio::test]
async fn what_the_longest_part_leaves_behind_is_the_next_longest_and_a_short_one_shortens_no_longer_one() {
    let place = ready().await;
    let (long, short) = (service(&place.pool), brief(&place.other(), LONG / 4));
    for shorter_first in [true, false] {
        let order = if shorter_first { [&short, &long] } else { [&long, &short] };
        let mut parts = Vec::new();
        for lock in order {
            parts.push(lock.acquire_shared(&resource()).await.unwrap());
        }
        assert!(held(long.try_acquire(&resource()).await) > LONG / 2);
        release(parts.remove(usize::from(shorter_first))).await;
        let left = held(long.try_acquire(&resource()).await);
        assert!(left > LONG / 8 && left < LONG / 2, "{left:?}");
        release(parts.remove(0)).await;
        release(long.try_acquire(&resource()).await.unwrap()).await;
    }
    // After the clock was set back, a row is closed for as long as its longest part may last.
    let _part = long.acquire_shared(&resource()).await.unwrap();
    let renewed = short.acquire_shared(&resource()).await.unwrap();
    renewed.renew().await.unwrap();
    set_clock_back(&place, 3600).await;
    assert!(held(long.try_acquire(&resource()).await) > LONG / 2);
}

#[tokio::test]
async fn a_row_that_is_closed_by_hand_is_closed_to_those_who_share_it() {
    let place = ready().await;
    let lock = service(&place.pool);
    let _part = lock.acquire_shared(&resource()).await.unwrap();
    run(&place, "UPDATE fencing_leases SET closed_for = NULL").await;
    held(lock.try_acquire_shared(&resource()).await);
}

#[tokio::test]
async fn a_part_that_nobody_renews_lapses_beside_one_that_is_renewed() {
    let place = ready().await;
    let (gone, kept) = (brief(&place.pool, Duration::from_secs(12)), service(&place.other()));
    let vanished = gone.acquire_shared(&resource()).await.unwrap();
    let held_on = kept.acquire_shared(&resource()).await.unwrap();
    lost(&vanished, Loss::Expired).await;
    sleep(Duration::from_millis(200)).await;
    held_on.renew().await.unwrap();
    assert!(vanished.renew().await.is_err());
    assert_eq!(vanished.release().await, Ok(Released::Lapsed));
    assert!(held(kept.try_acquire(&resource()).await) > LONG / 2);
    // It was the last: nothing of the other keeps the row closed.
    release(held_on).await;
    drop(kept.try_acquire(&resource()).await.unwrap());
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
    release(part).await;
    release(joined).await;
    assert!(held(lock.try_acquire(&resource()).await) > day / 2);
}

#[tokio::test]
async fn who_joins_has_the_token_of_the_others_unless_the_mark_is_above_it() {
    let place = ready().await;
    let lock = service(&place.pool);
    let mut parts = Vec::new();
    let first = Token::MIN.get();
    for (marked, granted) in [(None, first), (Some(first), first), (Some(first + 5), first + 6)] {
        if let Some(marked) = marked {
            mark(&place, marked).await;
        }
        let part = lock.acquire_shared(&resource()).await.unwrap();
        assert_eq!(part.token().get(), granted);
        parts.push(part);
    }
    for part in parts {
        part.renew().await.unwrap();
        release(part).await;
    }
    let alone = lock.try_acquire(&resource()).await.unwrap();
    let token = alone.token();
    assert!(token.get() > first + 6);
    release(alone).await;
    assert!(lock.try_acquire_shared(&resource()).await.unwrap().token() > token);
}

/// Tries to share the lock until it may not.
async fn drains(lock: &SqlLock<Db>) {
    until("it drains", async || lock.try_acquire_shared(&resource()).await.map(drop).is_err()).await;
}

/// With this delay a client that waits to hold it alone would keep others out for 45 s.
const SELDOM: Duration = Duration::from_secs(10);

/// Waits for so long to hold it alone, in vain.
async fn waits_in_vain(pool: &Pool<Db>, delay: Duration, wait: Duration) {
    let brief = builder(pool).retry_delay(delay).wait(wait).build().unwrap();
    held(brief.acquire(&resource()).await);
    brief.settle().await;
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
    drains(&lock).await;
    // Those who are there may stay.
    part.renew().await.unwrap();
    for part in [second, part] {
        held(lock.try_acquire_shared(&resource()).await);
        release(part).await;
    }
    release(waiter.await.unwrap().unwrap()).await;
    // Nothing of the wait is left.
    drop(lock.try_acquire_shared(&resource()).await.unwrap());
}

#[tokio::test]
async fn a_client_that_gives_up_keeps_others_out_until_its_wait_is_over() {
    let place = ready().await;
    let lock = service(&place.pool);
    let part = lock.acquire_shared(&resource()).await.unwrap();
    waits_in_vain(&place.other(), SELDOM, Duration::from_millis(200)).await;
    if let Err(error) = lock.try_acquire_shared(&resource()).await {
        let left = held::<fencing::lock::Shared>(Err(error));
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
    until("it drains", async || drains_for().await.is_some()).await;
    assert_eq!(drains_for().await, Some(20_000));
    long.abort();
    waits_in_vain(&other, Duration::from_millis(10), Duration::from_millis(200)).await;
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
    let joins = async || drop(lock.try_acquire_shared(&resource()).await.unwrap());
    let set_drain = async |seconds: i64| {
        let [since, until] = ["draining_since", "draining_until"].map(|it| words::later(it, seconds));
        run(&place, &format!("UPDATE fencing_leases SET {since}, {until}")).await;
    };
    let first = waits();
    drains(&lock).await;
    first.abort();
    // The time of those who wait is over, and that of the others is not.
    set_drain(-25).await;
    waits_in_vain(&other, SELDOM, Duration::from_secs(1)).await;
    joins().await;
    lock.settle().await;
    // Both are over.
    set_drain(-25).await;
    let second = waits();
    drains(&lock).await;
    second.abort();
    // A clock that is set back does not keep them out for longer.
    set_drain(3600).await;
    joins().await;
}

/// As `loss` has it of one who holds it alone.
#[tokio::test]
async fn those_who_were_followed_do_not_renew() {
    let place = ready().await;
    let (lock, other) = (brief(&place.pool, LONG), service(&place.other()));
    let part = lock.acquire_shared(&resource()).await.unwrap();
    run(&place, words::EXPIRE).await;
    let alone = other.acquire(&resource()).await.unwrap();
    assert!(matches!(part.renew().await, Err(RenewError::Lost(_))));
    lost(&part, Loss::Superseded).await;
    assert_eq!(part.release().await, Ok(Released::Lapsed));
    release(alone).await;
    // The other way round: readers after one who held it alone; and after readers.
    let alone = lock.acquire(&resource()).await.unwrap();
    run(&place, words::EXPIRE).await;
    let next = lock.acquire_shared(&resource()).await.unwrap();
    assert!(next.token() > alone.token());
    assert!(matches!(alone.renew().await, Err(RenewError::Lost(_))));
    run(&place, words::EXPIRE).await;
    let last = other.acquire_shared(&resource()).await.unwrap();
    assert!(last.token() > next.token());
    assert!(matches!(next.renew().await, Err(RenewError::Lost(_))));
    release(last).await;
}

/// A client that knows nothing of parts leaves them there when it is granted the row.
#[tokio::test]
async fn parts_that_an_older_client_has_left_there_are_over() {
    let place = ready().await;
    let (lock, other) = (brief(&place.pool, LONG), service(&place.other()));
    let renewed = lock.acquire_shared(&resource()).await.unwrap();
    let released = lock.acquire_shared(&resource()).await.unwrap();
    run(&place, "UPDATE fencing_leases SET owner = 'older', token = token + 1").await;
    held(other.try_acquire_shared(&resource()).await);
    assert!(matches!(renewed.renew().await, Err(RenewError::Lost(_))));
    lost(&renewed, Loss::Superseded).await;
    assert_eq!(released.release().await, Ok(Released::Lapsed));
    assert!(held(other.try_acquire(&resource()).await) > LONG / 2);
    // Who waits for the older client has nobody to keep out, and the next one begins again.
    waits_in_vain(&place.other(), Duration::from_millis(10), Duration::from_millis(200)).await;
    run(&place, words::EXPIRE).await;
    let next = other.try_acquire_shared(&resource()).await.unwrap();
    assert!(next.token().get() > renewed.token().get() + 1);
    release(next).await;
    drop(other.try_acquire(&resource()).await.unwrap());
}
