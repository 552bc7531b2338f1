//! Other transactions in the way.

use sqlx::{Database, Transaction};

use super::place::{DEFAULTS, Db, Place};
use super::suite::ready;
pub use super::suite::with_budget;
use super::words;
use crate::common::*;

pub const LOCK_ROW: &str = "SELECT token FROM fencing_leases FOR UPDATE";

/// A database with a row that was released.
pub async fn released() -> Place {
    let place = ready().await;
    release(with_budget(&place.pool, LONG / 2).acquire(&resource()).await.unwrap()).await;
    place
}

/// A transaction that has run this statement.
pub async fn by_hand(place: &Place, statement: &'static str) -> Transaction<'static, Db> {
    let mut by_hand = place.pool.begin().await.unwrap();
    sqlx::query(statement).execute(&mut *by_hand).await.unwrap();
    by_hand
}

/// Asks while such a transaction is in the way, which does something more, and commits, when somebody waits for it.
pub async fn held_up<T, M>(
    place: &Place,
    statement: &'static str,
    asked: impl Future<Output = T>,
    meanwhile: impl AsyncFnOnce(&mut Transaction<'static, Db>) -> M,
) -> (T, M) {
    let mut by_hand = by_hand(place, statement).await;
    tokio::join!(asked, async {
        place.blocked().await;
        let done = meanwhile(&mut by_hand).await;
        by_hand.commit().await.unwrap();
        done
    })
}

pub async fn owner(place: &Place) -> String {
    let owner = sqlx::query_scalar::<_, Vec<u8>>(words::OWNER).fetch_one(&place.pool).await;
    String::from_utf8(owner.unwrap()).unwrap()
}

/// Nothing goes on waiting in the server when its caller has given up.
pub async fn nothing_waits(place: &Place) {
    let mut conn = place.pool.acquire().await.unwrap();
    let ended = async || sqlx::query_scalar::<_, i64>(words::WAITING).fetch_one(&mut *conn).await.unwrap() == 0;
    until("the statement does not outlive its caller", ended).await;
}

#[tokio::test]
async fn under_every_isolation_level_a_conflict_is_no_holder() {
    let place = ready().await;
    for (number, &level) in DEFAULTS.iter().chain(words::SETTINGS).enumerate() {
        let client = async |_| {
            let lock = with_budget(&place.at(level), LONG / 2);
            let mut leases = 0;
            while leases < 6 {
                // The first of a resource as well as the next.
                match lock.try_acquire(&named(&format!("{number}/{}", leases / 2))).await {
                    Ok(lease) => {
                        release(lease).await;
                        leases += 1;
                    }
                    refused => drop(held(refused)),
                }
                sleep(Duration::from_millis(1)).await;
            }
        };
        futures_util::future::join_all((0..6).map(client)).await;
    }
}

#[tokio::test]
async fn what_somebody_keeps_locked_is_no_holder() {
    let place = released().await;
    for (lock, unlock) in words::LOCKED {
        let mut by_hand = place.pool.acquire().await.unwrap();
        sqlx::raw_sql(*lock).execute(&mut *by_hand).await.unwrap();
        fault(with_budget(&place.other(), Duration::from_millis(300)).try_acquire(&resource()).await);
        nothing_waits(&place).await;
        sqlx::raw_sql(*unlock).execute(&mut *by_hand).await.unwrap();
    }
    drop(with_budget(&place.other(), Duration::from_secs(20)).acquire(&resource()).await.unwrap());
}

#[tokio::test]
async fn a_row_that_is_closed_is_not_waited_for() {
    let place = released().await;
    let _lease = with_budget(&place.pool, LONG / 2).acquire(&resource()).await.unwrap();
    let _by_hand = by_hand(&place, LOCK_ROW).await;
    for level in DEFAULTS {
        held(with_budget(&place.at(level), Duration::from_secs(15)).try_acquire(&resource()).await);
    }
}

#[tokio::test]
async fn the_clock_is_read_after_the_wait() {
    let place = released().await;
    let (lock, name) = (with_budget(&place.other(), LONG / 2), resource());
    let time = async |by_hand: &mut Transaction<'static, Db>, query: &'static str| {
        sqlx::query_scalar::<_, i64>(query).fetch_one(&mut **by_hand).await.unwrap()
    };
    let lasts_from = async |moment| {
        let lasting = i64::try_from(LONG.as_millis()).unwrap();
        let end = sqlx::query_scalar::<_, i64>(words::EXPIRES_AT).fetch_one(&place.pool).await;
        assert!(end.unwrap() >= moment + lasting);
    };
    // Closed for a moment, which is over when the wait is.
    let asked = lock.try_acquire(&name);
    let (lease, before) = held_up(&place, words::CLOSE_FOR_A_MOMENT, asked, async |by_hand| {
        let expires_at = time(by_hand, words::EXPIRES_AT).await;
        while time(by_hand, words::NOW).await <= expires_at {
            sleep(Duration::from_millis(10)).await;
        }
        time(by_hand, words::NOW).await
    })
    .await;
    let lease = lease.unwrap();
    lasts_from(before).await;
    // And so it is when it is renewed.
    let renewed = lease.renew();
    let now = async |by_hand: &mut Transaction<'static, Db>| time(by_hand, words::NOW).await;
    let (left, before) = held_up(&place, LOCK_ROW, renewed, now).await;
    left.unwrap();
    lasts_from(before).await;
    release(lease).await;
}

#[tokio::test]
async fn a_row_that_is_closed_for_ever_is_held() {
    let place = released().await;
    let lock = with_budget(&place.pool, Duration::from_secs(10));
    sqlx::query(words::CLOSE_FOR_EVER).execute(&place.pool).await.unwrap();
    let left = held(lock.try_acquire(&resource()).await);
    // Elsewhere it is a clock that was set back.
    assert!(left > 2 * LONG || Db::NAME != "PostgreSQL", "{left:?}");
    sqlx::query(words::FREE).execute(&place.pool).await.unwrap();
    let lease = lock.acquire(&resource()).await.unwrap();
    let token = lease.token();
    release(lease).await;
    // As somebody may have left it by hand.
    sqlx::query("UPDATE fencing_leases SET owner = '', closed_for = NULL").execute(&place.pool).await.unwrap();
    assert!(lock.acquire(&resource()).await.unwrap().token() > token);
}

#[tokio::test]
async fn a_renewal_that_comes_after_the_release_does_not_lock_again() {
    let place = released().await;
    let lock = with_budget(&place.pool, LONG / 2);
    let lease = lock.acquire(&resource()).await.unwrap();
    let (owner, token) = (owner(&place).await, i64::from(lease.token()));
    let renews = async |owner: &str, token: i64| {
        let renew = sqlx::query_scalar::<_, i64>(words::RENEW).bind(owner.to_owned()).bind(token);
        renew.fetch_all(&place.pool).await.unwrap()[0] == 1
    };
    assert!(renews(&owner, token).await);
    assert!(!renews(&owner, token - 1).await);
    assert!(!renews("another", token).await);
    release(lease).await;
    assert!(!renews(&owner, token).await);
    drop(lock.try_acquire(&resource()).await.unwrap());
}

#[tokio::test]
async fn a_grant_that_comes_after_the_budget_is_taken_back() {
    let place = ready().await;
    sqlx::raw_sql(words::SLOW_GRANTS).execute(&place.pool).await.unwrap();
    let pool = place.other();
    let (brief, patient) = (with_budget(&pool, LONG / 60), with_budget(&pool, LONG / 3));
    until("there is a connection", async || brief.health().await.has_quorum()).await;
    // Without a connection in time, nothing was asked for.
    until("it is asked for", async || match brief.try_acquire(&resource()).await {
        // This process was late itself.
        Ok(lease) => {
            let _ = lease.release().await;
            false
        }
        refused => match fault(refused) {
            Fault::TimedOut => true,
            Fault::Unreachable(_) => false,
            other => panic!("{other:?}"),
        },
    })
    .await;
    assert!(patient.acquire(&resource()).await.unwrap().token().get() > 1);
}
