//! What holds on every database. `super::place` says on which one this runs.

mod dropped;
mod holders;
mod lease;
mod loss;
mod shared;
mod tokens;

use super::place::{Db, Place};
use super::words;
use crate::common::*;

pub async fn ready() -> Place {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    place
}

/// As patient as a loaded machine needs.
pub fn builder(pool: &Pool<Db>) -> SqlLockBuilder<Db> {
    SqlLock::builder(pool.clone())
        .ttl(LONG)
        .wait(Duration::from_secs(20))
        .budget(Duration::from_secs(10))
        .retry_delay(Duration::from_millis(10))
}

pub fn service(pool: &Pool<Db>) -> SqlLock<Db> {
    builder(pool).build().unwrap()
}

pub fn with_budget(pool: &Pool<Db>, budget: Duration) -> SqlLock<Db> {
    SqlLock::builder(pool.clone()).ttl(LONG).budget(budget).build().unwrap()
}

/// A lease of this TTL, with the longest budget that it allows.
fn short(pool: &Pool<Db>, ttl: Duration) -> SqlLockBuilder<Db> {
    builder(pool).ttl(ttl).budget(ttl / 2)
}

/// The same, where nobody renews it.
fn brief(pool: &Pool<Db>, ttl: Duration) -> SqlLock<Db> {
    short(pool, ttl).renew(false).build().unwrap()
}

/// When the row expires, in milliseconds.
async fn expires_at(place: &Place) -> i64 {
    sqlx::query_scalar(words::EXPIRES_AT).fetch_one(&place.pool).await.unwrap()
}

async fn run(place: &Place, statement: &str) {
    loop {
        match sqlx::query(AssertSqlSafe(statement.to_owned())).execute(&place.pool).await {
            // SQLite does not wait where two wait for each other, as this one and a renewal may.
            Err(error) if error.to_string().contains("database is locked") => {}
            done => {
                done.unwrap();
                return;
            }
        }
    }
}

/// The clock is set back, or forward again: what counts is the distance to the row.
async fn set_clock_back(place: &Place, seconds: i64) {
    let [end, anomaly] = ["expires_at", "clock_anomaly_since"].map(|it| words::later(it, seconds));
    run(place, &format!("UPDATE fencing_leases SET {end}, {anomaly}")).await;
}

/// Gives the resource this mark, as a storage does that has seen its token.
async fn mark(place: &Place, token: u64) {
    sql::begin(&place.pool, &resource(), Token::new(token).unwrap()).await.unwrap().commit().await.unwrap();
}
