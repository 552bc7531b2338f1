//! Two writers that are fenced in different ways: those lock in different orders, the mark first, or the row.

use std::cell::RefCell;
use std::collections::HashMap;

use fencing::Sequencer;
use fencing::fence::{CommitError, FenceError, Transactions};
use fencing::sql::Protect;
use sqlx::{AssertSqlSafe, Pool, raw_sql};

use super::*;
use crate::rounds::{refused, rounds, stall};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Admit,
    Begin,
    /// As below a `TransactionLayer`.
    Layer,
    /// Presents a sequencer to a protected table, which alone decides.
    Present,
    /// Presents nothing, and so writes only tables that are not protected.
    Guarded,
    /// Admits in a transaction that commits in two phases.
    Xa,
}

const WAYS: &[Way] = &[Way::Admit, Way::Begin, Way::Layer, Way::Present, Way::Guarded, Way::Xa];

fn in_the_way() -> AdmitError {
    AdmitError::Retryable(sqlx::Error::RowNotFound)
}

async fn read_and_write(
    tx: &mut Transaction<'_, Db>,
    own: &Sequencer,
    protected: bool,
) -> Result<(), AdmitError> {
    stall().await;
    sqlx::query_scalar::<_, i64>("SELECT late FROM files").fetch_one(&mut **tx).await?;
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

async fn attempt(
    pool: &Pool<Db>,
    own: &Sequencer,
    way: Way,
    protected: bool,
) -> Result<(), AdmitError> {
    stall().await;
    let mut tx = match way {
        Way::Layer => return layered(pool, own, protected).await,
        Way::Guarded => return guarded(pool, own).await,
        Way::Xa => return in_xa(pool, own).await,
        Way::Begin => sql::begin(pool, &own.resource, own.token).await?,
        Way::Admit | Way::Present => pool.begin().await?,
    };
    if way == Way::Admit {
        stall().await;
        sql::admit(&mut tx, &own.resource, own.token).await?;
    }
    read_and_write(&mut tx, own, protected).await?;
    Ok(tx.commit().await?)
}

/// Which ways may meet on one table, and whether that is protected.
fn meetings() -> impl Iterator<Item = (Way, Way, bool)> {
    let pairs = WAYS.iter().flat_map(|old| WAYS.iter().map(|new| (*old, *new)));
    pairs.filter_map(|(old, new)| {
        let meets = |way| old == way || new == way;
        let possible = old != new
            && !(meets(Way::Guarded) && meets(Way::Present))
            && (place::XA || !meets(Way::Xa));
        possible.then(|| (old, new, !meets(Way::Guarded)))
    })
}

/// `FENCING_ROUNDS` sets the rounds of twelve meetings.
#[tokio::test]
async fn writers_that_are_fenced_in_different_ways_refuse_each_other() {
    let rounds = rounds().div_ceil(12);
    let (open, closed) = (ready().await, ready().await);
    Protect::rows("files", "path").unwrap().apply(&closed.pool).await.unwrap();
    let (mut played, mut late_tokens) = (0, 0);
    let tries = RefCell::new(HashMap::<u64, u64>::new());
    for &level in place::DEFAULTS {
        for protected in [false, true] {
            let place = if protected { &closed } else { &open };
            let pool = place.at(level);
            for (old, new, _) in meetings().filter(|meeting| meeting.2 == protected) {
                late_tokens += refused(rounds, async |number| {
                    let way = if number % 2 == 1 { old } else { new };
                    let own = Sequencer::new(resource(), token(number + 2 * played));
                    *tries.borrow_mut().entry(own.token.get()).or_default() += 1;
                    attempt(&pool, &own, way, protected).await
                })
                .await;
                played += rounds;
                assert_eq!(file(place).await.1, 0, "{level}: {old:?} beside {new:?}");
            }
        }
    }
    let most = tries.into_inner().into_values().max().unwrap_or_default();
    println!("{played} rounds, {late_tokens} refused, no writer tried more than {most} times");
    assert!(late_tokens > 0, "nothing stale was attempted");
}
