//! Two writers with neighbouring tokens, at every isolation level.

use fencing::Sequencer;
use fencing::sql::Protect;

use super::*;
use crate::rounds::{refused, rounds, stall};

/// How a round's writers check their tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Guard {
    None,
    Admit,
    /// Admits a sequencer, and presents it to a protected table.
    AdmitAndPresent,
    /// Presents a sequencer to a protected table, which alone decides.
    Present,
    Begin,
    BeginAndPresent,
    Retry,
}

impl Guard {
    fn is_presented(self) -> bool {
        matches!(self, Guard::AdmitAndPresent | Guard::Present | Guard::BeginAndPresent)
    }

    fn begins(self) -> bool {
        matches!(self, Guard::Begin | Guard::BeginAndPresent | Guard::Retry)
    }
}

async fn attempt(
    place: &Place,
    level: &'static str,
    number: u64,
    guard: Guard,
    presents: bool,
) -> Result<(), AdmitError> {
    let own = Sequencer::new(resource(), token(number));
    stall().await;
    let mut tx = match guard {
        guard if guard.begins() => sql::begin(&place.pool, &own.resource, own.token).await?,
        _ => place.pool.begin_with(level).await?,
    };
    stall().await;
    if matches!(guard, Guard::Admit | Guard::AdmitAndPresent) {
        sql::admit(&mut tx, &own.resource, own.token).await?;
    }
    stall().await;
    // A write in two steps, as of one who reads and writes.
    let read = sqlx::query_scalar::<_, i64>("SELECT late FROM files");
    read.fetch_one(&mut *tx).await?;
    stall().await;
    let mut presented = String::new();
    if presents {
        sql::present(&mut tx, &own).await?;
        presented = place::presents(&own);
        stall().await;
    }
    write_with(&mut tx, own.token, &presented).await?;
    stall().await;
    Ok(tx.commit().await?)
}

/// Refused, and landed on top of a newer token's write.
async fn play(level: &'static str, guard: Guard, rounds: u64) -> (u64, i64) {
    let place = ready().await;
    if guard.is_presented() {
        Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    }
    let refused = refused(rounds, async |number| match guard {
        Guard::Retry => {
            let once = || attempt(&place, level, number, guard, false);
            sql::retry(sql::Retry::new(), once).await
        }
        _ => attempt(&place, level, number, guard, guard.is_presented()).await,
    });
    let refused = refused.await;
    let (_, late) = file(&place).await;
    (refused, late)
}

#[tokio::test]
async fn no_stale_write_is_accepted_at_any_level() {
    use Guard::{Admit, AdmitAndPresent, Begin, BeginAndPresent, Present, Retry};

    let rounds = rounds();
    for &level in LEVELS {
        for guard in [Admit, AdmitAndPresent, Present, Begin, BeginAndPresent, Retry] {
            // Those begin at the default level.
            if guard.begins() && level != LEVELS[0] {
                continue;
            }
            let (refused, late) = play(level, guard, rounds).await;
            println!("{level}: {guard:?}: {rounds} rounds, {refused} refused, {late} stale writes");
            assert_eq!(late, 0, "{level} {guard:?}");
        }
        let (_, late) = play(level, Guard::None, rounds.min(1000)).await;
        println!("{level}: unguarded: {} rounds, {late} stale writes", rounds.min(1000));
        assert!(late > 0, "{level}: without the guard nothing went wrong: nothing was tested");
    }
}
