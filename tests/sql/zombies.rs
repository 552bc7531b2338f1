//! Stale clients that are fenced by triggers alone, which lock a row first and the mark after it, beside the
//! holder of a newer token, which locks the mark first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencing::Sequencer;
use fencing::fence::Transactions;
use fencing::sql::{self, AdmitError, Protect};
use sqlx::Transaction;
use tokio::task::JoinSet;

use super::place::{self, Db, Place};
use super::setup::{file, ready};
use crate::common::{resource, token};

/// Changes the row each time, for a database may take back the transaction that has changed less. Writes that landed
/// on top of a newer one are counted in millions.
const WRITE: &str = "UPDATE files
    SET late = late + CASE WHEN token > $1 THEN 1000000 ELSE 1 END, token = $2";

/// How the holder is admitted.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Begin,
    /// As below a `TransactionLayer`.
    Layer,
    /// In a transaction of the caller.
    Admit,
}

async fn present_and_write(
    tx: &mut Transaction<'_, Db>,
    own: &Sequencer,
) -> Result<(), AdmitError> {
    sql::present(tx, own).await?;
    let write =
        sqlx::query(place::sql(WRITE)).bind(i64::from(own.token)).bind(i64::from(own.token));
    Ok(write.execute(&mut **tx).await.map(drop)?)
}

async fn write_once(pool: &sqlx::Pool<Db>, own: &Sequencer) -> Result<(), AdmitError> {
    let mut tx = pool.begin().await?;
    present_and_write(&mut tx, own).await?;
    Ok(tx.commit().await?)
}

/// Writes until it is refused.
async fn haunt(place: Arc<Place>, level: &'static str, own: Sequencer, written: Arc<AtomicU64>) {
    let pool = place.at(level);
    loop {
        match write_once(&pool, &own).await {
            Ok(()) => drop(written.fetch_add(1, Ordering::Relaxed)),
            Err(AdmitError::Stale(_)) => return,
            Err(AdmitError::Retryable(_)) => {}
            Err(error) => panic!("{level}: {error:?}"),
        }
    }
}

async fn hold(place: &Place, way: Way, level: &'static str, own: &Sequencer) {
    let pool = place.at(level);
    let tx = match way {
        Way::Begin => sql::begin(&pool, &own.resource, own.token).await,
        Way::Layer => Ok(Transactions::begin(&pool, std::slice::from_ref(own)).await.unwrap()),
        Way::Admit => {
            let mut tx = pool.begin().await.unwrap();
            sql::admit(&mut tx, &own.resource, own.token).await.map(|()| tx)
        }
    };
    let mut tx = tx.unwrap_or_else(|error| panic!("{way:?} {level}: {error}"));
    // Longer than PostgreSQL looks for a deadlock.
    tokio::time::sleep(Duration::from_millis(250)).await;
    let write = present_and_write(&mut tx, own).await;
    write.unwrap_or_else(|error| panic!("{way:?} {level}: {error}"));
    tx.commit().await.unwrap();
}

async fn the_holder_wins(way: Way, level: &'static str, zombies: u64) {
    let place = Arc::new(ready().await);
    Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    let own = |number| Sequencer::new(resource(), token(number));
    let written = Arc::new(AtomicU64::new(0));
    let mut haunting = JoinSet::new();
    for _ in 0..zombies {
        haunting.spawn(haunt(place.clone(), level, own(33), written.clone()));
    }
    while written.load(Ordering::Relaxed) < 3 * zombies {
        if let Some(ended) = haunting.try_join_next() {
            panic!("{way:?} {level}: before the holder came: {ended:?}");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    hold(&place, way, level, &own(34)).await;
    while let Some(ended) = haunting.join_next().await {
        ended.unwrap();
    }
    let (last, late) = file(&place).await;
    assert_eq!((last, late / 1_000_000), (34, 0), "{way:?} {level}");
}

/// A deadlock took the raise of the holder back, and the stale clients went on writing.
#[tokio::test]
async fn a_newer_holder_is_admitted_at_the_first_try() {
    for &level in place::DEFAULTS {
        for zombies in [1, 4] {
            the_holder_wins(Way::Begin, level, zombies).await;
            the_holder_wins(Way::Layer, level, zombies).await;
            if place::GIVES_WAY && level == place::DEFAULTS[0] {
                the_holder_wins(Way::Admit, level, zombies).await;
            }
        }
    }
}
