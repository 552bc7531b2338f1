//! Two writers with neighbouring tokens, round after round, with pauses between every two
//! statements. `FENCING_ROUNDS` sets the rounds per isolation level (default 12).

use super::*;

/// How a round's writers check their tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Guard {
    None,
    Admit,
    Begin,
    Retry,
}

/// What became of a writer.
#[derive(Debug, PartialEq)]
enum Written {
    Done,
    Stale,
}

fn rounds() -> u64 {
    std::env::var("FENCING_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

/// Rarely long enough that the other one gets all the way through.
async fn stall() {
    match crate::common::below(4) {
        0 => tokio::time::sleep(std::time::Duration::from_micros(crate::common::below(2000))).await,
        1 => tokio::task::yield_now().await,
        _ => {}
    }
}

async fn attempt(
    place: &Place,
    level: &'static str,
    number: u64,
    guard: Guard,
) -> Result<Written, AdmitError> {
    stall().await;
    let mut tx = match guard {
        Guard::Begin => sql::begin(&place.pool, &resource(), token(number)).await?,
        _ => place.pool.begin_with(level).await?,
    };
    stall().await;
    if guard == Guard::Admit {
        sql::admit(&mut tx, &resource(), token(number)).await?;
        stall().await;
    }
    // A write in two steps, as of one who reads and writes.
    let read = sqlx::query_scalar::<_, i64>("SELECT late FROM files");
    read.fetch_one(&mut *tx).await?;
    stall().await;
    write(&mut tx, token(number)).await?;
    stall().await;
    tx.commit().await?;
    Ok(Written::Done)
}

async fn writer(place: &Place, level: &'static str, number: u64, guard: Guard) -> Written {
    loop {
        let outcome = match guard {
            Guard::Retry => {
                let policy = sql::Retry::new();
                sql::retry(policy, || attempt(place, level, number, Guard::Begin)).await
            }
            _ => attempt(place, level, number, guard).await,
        };
        match outcome {
            Ok(written) => return written,
            Err(AdmitError::Stale(stale)) => {
                assert!(stale.highest > token(number), "{stale}");
                return Written::Stale;
            }
            Err(AdmitError::Retryable(_)) => stall().await,
            Err(error) => panic!("{level} {guard:?}: {error:?}"),
        }
    }
}

/// Refused, and landed on top of a newer token's write.
async fn play(level: &'static str, guard: Guard, rounds: u64) -> (u64, i64) {
    let place = ready().await;
    let mut refused = 0;
    for round in 0..rounds {
        let (old, new) = (2 * round + 1, 2 * round + 2);
        let old = async {
            // The stale one is late more often than not.
            tokio::time::sleep(std::time::Duration::from_micros(crate::common::below(1500))).await;
            writer(&place, level, old, guard).await
        };
        let (old, new) = tokio::join!(old, writer(&place, level, new, guard));
        assert_eq!(new, Written::Done, "the newest is never stale");
        refused += u64::from(old == Written::Stale);
    }
    let (_, late) = file(&place).await;
    (refused, late)
}

#[tokio::test]
async fn no_stale_write_is_accepted_at_any_level() {
    let rounds = rounds();
    for &level in LEVELS {
        for guard in [Guard::Admit, Guard::Begin, Guard::Retry] {
            // Those begin at the default level.
            if guard != Guard::Admit && level != LEVELS[0] {
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
