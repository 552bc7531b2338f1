//! Two writers with neighbouring tokens, round after round: fenced in the same way at every isolation level, and in
//! different ways, which lock in different orders, the mark first, or the row.

use fencing::Sequencer;
use fencing::fence::{CommitError, FenceError, Transactions};
use fencing::sql::Protect;
use sqlx::{AssertSqlSafe, Pool, raw_sql};

use super::*;
use crate::rounds::{refused, rounds, stall};

/// How a writer checks its token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Way {
    Unfenced,
    Admit,
    Begin,
    /// Tries again after a conflict.
    Retry,
    /// As below a `TransactionLayer`.
    Layer,
    /// Presents a sequencer to a protected table, which alone decides.
    Present,
    /// Presents nothing, and so writes only tables that are not protected.
    Guarded,
    /// Admits in a transaction that commits in two phases.
    Xa,
}

use Way::*;

fn in_the_way() -> AdmitError {
    AdmitError::Retryable(sqlx::Error::RowNotFound)
}

async fn read_and_write(
    tx: &mut Transaction<'_, Db>,
    own: &Sequencer,
    protected: bool,
) -> Result<(), AdmitError> {
    stall().await;
    let read = sqlx::query_scalar::<_, i64>("SELECT late FROM files").persistent(false);
    read.fetch_one(&mut **tx).await?;
    stall().await;
    let mut presented = String::new();
    if protected {
        sql::present(tx, own).await?;
        presented = place::presents(own);
        stall().await;
    }
    write_with(tx, own.token, &presented).await?;
    stall().await;
    Ok(())
}

async fn layered(pool: &Pool<Db>, own: &Sequencer, protected: bool) -> Result<(), AdmitError> {
    let mut tx = match Transactions::begin(pool, std::slice::from_ref(own)).await {
        Ok(tx) => tx,
        Err(FenceError::Stale(stale)) => return Err(stale.into()),
        Err(FenceError::Conflict(_)) => return Err(in_the_way()),
        Err(error) => panic!("{error:?}"),
    };
    read_and_write(&mut tx, own, protected).await?;
    match <Pool<Db> as Transactions>::commit(tx).await {
        Ok(()) => Ok(()),
        Err(CommitError::Conflict(_)) => Err(in_the_way()),
        Err(error) => panic!("{error:?}"),
    }
}

async fn guarded(pool: &Pool<Db>, own: &Sequencer) -> Result<(), AdmitError> {
    let number = i64::from(own.token);
    let write = sql::guarded(place::GUARDED, "path = 'files/a'").bind(number).bind(number);
    let (tx, rows) = write.begin(pool, &own.resource, own.token).await?;
    assert_eq!(rows, 1);
    stall().await;
    Ok(tx.commit().await?)
}

/// The parts of a branch of XA on MariaDB, and how it ends if one of them fails.
async fn in_xa(pool: &Pool<Db>, own: &Sequencer) -> Result<(), AdmitError> {
    let (token, branch) = (own.token, crate::common::below(u64::MAX));
    let mut conn = pool.acquire().await?;
    for part in [
        format!("XA START '{branch}'"),
        format!("CALL fencing_admit('files/a', {token})"),
        format!("SET @fencing_sequencer = '{own}'"),
        format!("UPDATE files SET late = late + (token > {token}), token = {token}"),
        format!("XA END '{branch}'; XA PREPARE '{branch}'"),
        format!("XA COMMIT '{branch}'"),
    ] {
        stall().await;
        if let Err(error) = raw_sql(AssertSqlSafe(part)).execute(&mut *conn).await {
            for end in ["END", "ROLLBACK"] {
                let end = AssertSqlSafe(format!("XA {end} '{branch}'"));
                let _ = raw_sql(end).execute(&mut *conn).await;
            }
            return Err(error.into());
        }
    }
    Ok(())
}

/// Writes once. Through a pooler no statement may have a name.
pub async fn attempt_write(
    pool: &Pool<Db>,
    level: Option<&'static str>,
    own: &Sequencer,
    way: Way,
    protected: bool,
) -> Result<(), AdmitError> {
    stall().await;
    let mut tx = match (way, level) {
        (Layer, _) => return layered(pool, own, protected).await,
        (Guarded, _) => return guarded(pool, own).await,
        (Xa, _) => return in_xa(pool, own).await,
        (Begin | Retry, _) => sql::begin(pool, &own.resource, own.token).await?,
        (_, Some(level)) => pool.begin_with(level).await?,
        (_, None) => pool.begin().await?,
    };
    if way == Admit {
        stall().await;
        sql::admit(&mut tx, &own.resource, own.token).await?;
    }
    read_and_write(&mut tx, own, protected).await?;
    Ok(tx.commit().await?)
}

/// Plays two writers on a table of their own. How many were refused, and how many landed on top of a newer token's
/// write.
async fn play(level: &'static str, way: Way, protected: bool, rounds: u64) -> (u64, i64) {
    let place = ready().await;
    if protected {
        Protect::rows("files", "path").unwrap().apply(&place.pool).await.unwrap();
    }
    let refused = refused(rounds, async |number| {
        let own = Sequencer::new(resource(), token(number));
        let once = async || attempt_write(&place.pool, Some(level), &own, way, protected).await;
        if way == Retry { sql::retry(sql::Retry::new(), once).await } else { once().await }
    });
    let refused = refused.await;
    (refused, file(&place).await.1)
}

#[tokio::test]
async fn no_stale_write_is_accepted_at_any_level() {
    let rounds = rounds();
    for &level in LEVELS {
        let plays = [
            (Admit, false),
            (Admit, true),
            (Present, true),
            (Begin, false),
            (Begin, true),
            (Retry, false),
        ];
        for (way, protected) in plays {
            // Those begin at the default level.
            if matches!(way, Begin | Retry) && level != LEVELS[0] {
                continue;
            }
            let (refused, late) = play(level, way, protected, rounds).await;
            println!(
                "{level}: {way:?}, protected {protected}: {rounds} rounds, {refused} refused, {late} stale writes"
            );
            assert_eq!(late, 0, "{level} {way:?}");
        }
        let few = rounds.clamp(100, 1000);
        let (_, late) = play(level, Unfenced, false, few).await;
        println!("{level}: unguarded: {few} rounds, {late} stale writes");
        assert!(late > 0, "{level}: without the guard nothing went wrong: nothing was tested");
    }
}

/// Which ways may meet on one table.
fn meetings(protected: bool) -> impl Iterator<Item = (Way, Way)> {
    const WAYS: [Way; 6] = [Admit, Begin, Layer, Present, Guarded, Xa];
    let pairs = WAYS.iter().flat_map(|old| WAYS.iter().map(|new| (*old, *new)));
    pairs.filter(move |(old, new)| {
        let meets = |way| *old == way || *new == way;
        (old != new || *old == Guarded)
            && meets(Guarded) != protected
            && !(meets(Guarded) && meets(Present))
            && (place::XA || !meets(Xa))
    })
}

/// `FENCING_ROUNDS` sets the rounds of twelve meetings.
#[tokio::test]
async fn writers_that_are_fenced_in_different_ways_refuse_each_other() {
    let rounds = rounds().div_ceil(12);
    let (open, closed) = (ready().await, ready().await);
    Protect::rows("files", "path").unwrap().apply(&closed.pool).await.unwrap();
    let (mut played, mut late_tokens) = (0, 0);
    for &level in place::DEFAULTS {
        for (place, protected) in [(&open, false), (&closed, true)] {
            let pool = place.at(level);
            for (old, new) in meetings(protected) {
                late_tokens += refused(rounds, async |number| {
                    let way = if number % 2 == 1 { old } else { new };
                    let own = Sequencer::new(resource(), token(number + 2 * played));
                    attempt_write(&pool, None, &own, way, protected).await
                })
                .await;
                played += rounds;
                assert_eq!(file(place).await.1, 0, "{level}: {old:?} beside {new:?}");
            }
        }
    }
    println!("{played} rounds, {late_tokens} refused");
    assert!(late_tokens > 0, "nothing stale was attempted");
}
