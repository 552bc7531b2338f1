//! What holds on every database. `super::place` says on which one this runs.

mod at_least;
mod dropped;
mod holders;
mod lease;
mod loss;
mod processes;
mod queue;
mod reserve;
mod shared;
mod tokens;

use std::time::Duration;

use fencing::lock::sql::{SqlLock, SqlLockBuilder};
use fencing::lock::{AcquireError, Loss, Released};
use fencing::{Resource, sql};
use sqlx::Pool;

use super::place::{Db, Place};
use super::words;
use crate::common::{LONG, fault, held, resource};

/// A database with our tables.
async fn ready() -> Place {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    place
}

/// As patient as a loaded machine needs.
fn builder(pool: &Pool<Db>) -> SqlLockBuilder<Db> {
    SqlLock::builder(pool.clone())
        .ttl(LONG)
        .wait(Duration::from_secs(20))
        .budget(Duration::from_secs(10))
        .retry_delay(Duration::from_millis(10))
}

fn service(pool: &Pool<Db>) -> SqlLock<Db> {
    builder(pool).build().unwrap()
}

/// A lease of this TTL, with the longest budget that it allows.
fn short(pool: &Pool<Db>, ttl: Duration) -> SqlLockBuilder<Db> {
    builder(pool).ttl(ttl).budget(ttl / 2)
}

/// When the row expires, in milliseconds.
async fn expires_at(place: &Place) -> i64 {
    let query = sqlx::query_scalar(words::EXPIRES_AT).bind(resource().as_str().to_owned());
    query.fetch_one(&place.pool).await.unwrap()
}

async fn run(place: &Place, statement: &'static str) {
    loop {
        match sqlx::query(statement).execute(&place.pool).await {
            // SQLite does not wait where two wait for each other, as this one and a renewal may.
            Err(error) if error.to_string().contains("database is locked") => {}
            done => {
                done.unwrap();
                return;
            }
        }
    }
}

/// Gives the resource this mark, as a storage does that has seen its token.
async fn mark(place: &Place, token: i64) {
    let mark = sqlx::query(words::MARK).bind(resource().as_str().to_owned()).bind(token);
    mark.execute(&place.pool).await.unwrap();
}
