//! A database that answers late, and what a client's own clock makes of that.

use fencing::time::ManualClock;
use sqlx::Sqlite;

use super::place::Place;
use super::suite::ready;
use crate::common::*;

const LATE: Duration = Duration::from_secs(5);
const TTL: Duration = Duration::from_secs(60);

async fn place() -> (Place, ManualClock, SqlLock<Sqlite>) {
    let (place, clock) = (ready().await, ManualClock::default());
    let lock = SqlLock::builder(place.impatient()).clock(clock.clone()).renew(false);
    let lock = lock.ttl(TTL).budget(Duration::from_secs(20)).build().unwrap();
    (place, clock, lock)
}

/// Asks while another transaction is in the way, which ends so much later by the client's clock: it has asked when the
/// clock moves, as it was polled first.
async fn answered<T>(late: Duration, place: &Place, clock: &ManualClock, asked: impl Future<Output = T>) -> T {
    let writer = place.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let (answer, ()) = tokio::join!(asked, async {
        clock.advance(late);
        writer.commit().await.unwrap();
    });
    answer
}

#[tokio::test]
async fn a_lease_counts_from_before_the_question() {
    let (place, clock, lock) = place().await;
    let both = [resource(), named("b")];
    for names in [&both[..1], &both] {
        let prompt = lock.acquire_all(names).await.unwrap();
        let whole = prompt.valid_for();
        release(prompt).await;
        let late = answered(LATE, &place, &clock, lock.acquire_all(names)).await.unwrap();
        assert_eq!(late.valid_for(), whole - LATE);
        let left = answered(LATE, &place, &clock, late.renew()).await.unwrap();
        assert_eq!((left, late.valid_for()), (whole - LATE, whole - LATE));
        release(late).await;
    }
}

#[tokio::test]
async fn a_lease_that_is_over_when_it_is_granted_is_none() {
    let (place, clock, lock) = place().await;
    let resource = resource();
    let asked = lock.try_acquire(&resource);
    assert_eq!(fault(answered(TTL, &place, &clock, asked).await), Fault::GrantedTooLate);
    // It was released.
    lock.settle().await;
    drop(lock.try_acquire(&resource).await.unwrap());
}
