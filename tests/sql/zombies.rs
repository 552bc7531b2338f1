//! Stale clients that are fenced by triggers alone, which lock a row first and the mark after it, beside the
//! holder of a newer token, which locks the mark first.

use std::cell::Cell;

use super::setup::*;
use super::suite::writers::{Way, Writer, ready_for};

/// Changes the row each time, for a database may take back the transaction that has changed less. Writes that landed
/// on top of a newer one are counted in millions.
const WRITE: &str = "UPDATE files
    SET late = late + CASE WHEN token > $1 THEN 1000000 ELSE 1 END, token = $2";

async fn write(mut tx: Transaction<'_, Db>, number: u64) -> Result<(), AdmitError> {
    sql::present(&mut tx, &own(number)).await?;
    let write = sqlx::query(place::sql(WRITE)).bind(number.cast_signed());
    write.bind(number.cast_signed()).execute(&mut *tx).await?;
    Ok(tx.commit().await?)
}

/// Writes until it is refused.
async fn haunt(pool: &Pool<Db>, written: &Cell<u32>) {
    loop {
        match write(pool.begin().await.unwrap(), 33).await {
            Ok(()) => written.set(written.get() + 1),
            Err(AdmitError::Stale(_)) => return,
            Err(AdmitError::Retryable(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

async fn the_holder_wins(way: Way, level: &'static str, zombies: u32) {
    let place = ready_for(Way::Present).await;
    let (pool, written) = (place.at(level), Cell::new(0));
    let haunting = join_all((0..zombies).map(|_| haunt(&pool, &written)));
    let holding = async {
        while written.get() < 3 * zombies {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let tx = Writer::new(way).admitted(&pool, 34).await.unwrap();
        // Longer than PostgreSQL looks for a deadlock.
        tokio::time::sleep(Duration::from_millis(250)).await;
        write(tx, 34).await.unwrap();
    };
    let both = tokio::time::timeout(Duration::from_secs(60), async { tokio::join!(haunting, holding) });
    both.await.unwrap_or_else(|_| panic!("{way:?} {level}: somebody is kept out"));
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
