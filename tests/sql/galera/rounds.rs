//! Two writers on two nodes, round after round, with pauses.

use fencing::Sequencer;
use fencing::sql::{AdmitError, Protect, Retry};

use super::*;
use crate::common::{below, pause};
use crate::rounds::rounds;

/// How the old writer checks its token.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Guard {
    None,
    Begin,
    /// Begins with a sequencer, and presents it to a protected table.
    BeginAndPresent,
    /// Presents it to a protected table, which alone decides.
    Present,
}

/// Writes with this token. Whether it was done, or was stale.
async fn old(pool: &MySqlPool, number: u64, guard: Guard) -> bool {
    let own = Sequencer::new(resource(), token(number));
    let attempt = || async {
        let mut tx = match guard {
            Guard::Begin | Guard::BeginAndPresent => {
                sql::begin(pool, &own.resource, own.token).await?
            }
            Guard::None | Guard::Present => pool.begin().await?,
        };
        pause().await;
        if matches!(guard, Guard::BeginAndPresent | Guard::Present) {
            sql::present(&mut tx, &own).await?;
        }
        sqlx::raw_sql(write(number.cast_signed())).execute(&mut *tx).await?;
        pause().await;
        tx.commit().await?;
        Ok::<_, AdmitError>(())
    };
    match sql::retry(Retry::new().tries(100), attempt).await {
        Ok(()) => true,
        Err(AdmitError::Stale(_)) => false,
        Err(error) => panic!("{number}: {error:?}"),
    }
}

/// Shuts older tokens out by a transaction that only reads. What it has read.
async fn new(pool: &MySqlPool, number: u64) -> i64 {
    let attempt = || async {
        let mut tx = sql::begin(pool, &resource(), token(number)).await?;
        pause().await;
        let read = sqlx::query_scalar("SELECT body FROM files").fetch_one(&mut *tx).await?;
        pause().await;
        tx.commit().await?;
        Ok::<_, AdmitError>(read)
    };
    sql::retry(Retry::new().tries(100), attempt).await.unwrap()
}

/// How many rounds were refused, and in how many the file changed after the newer token had
/// read it.
async fn play(cluster: &Cluster, swapped: bool, rounds: u64, guard: Guard) -> (u64, u64) {
    let (here, there) =
        if swapped { (&cluster.two, &cluster.one) } else { (&cluster.one, &cluster.two) };
    let start = sql::highest(here, &resource()).await.unwrap().map_or(1, |mark| mark.get() + 1);
    let (mut refused, mut late) = (0, 0);
    for number in (start..).step_by(2).take(rounds.try_into().unwrap()) {
        if below(2) == 0 {
            // The mark is equal already.
            sql::begin(here, &resource(), token(number)).await.unwrap().commit().await.unwrap();
            cluster.settled().await;
        }
        let old = async {
            tokio::time::sleep(Duration::from_micros(below(4000))).await;
            old(here, number, guard).await
        };
        let (done, read) = tokio::join!(old, new(there, number + 1));
        refused += u64::from(!done);
        cluster.settled().await;
        late += u64::from(cluster.body(there).await != read);
    }
    (refused, late)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_stale_write_lands_in_either_direction() {
    let cluster = Cluster::ready().await;
    let few = rounds().clamp(100, 1000);
    let (_, late) = play(&cluster, false, few, Guard::None).await;
    println!("unguarded: {few} rounds, {late} stale writes");
    assert!(late > 0, "without the guard nothing went wrong: nothing was tested");
    for guard in [Guard::Begin, Guard::BeginAndPresent, Guard::Present] {
        if guard == Guard::BeginAndPresent {
            Protect::whole("files", resource()).unwrap().apply(&cluster.one).await.unwrap();
            cluster.settled().await;
        }
        for swapped in [false, true] {
            let rounds = rounds();
            let (refused, late) = play(&cluster, swapped, rounds, guard).await;
            println!(
                "{guard:?}, swapped {swapped}: {rounds} rounds, {refused} refused, {late} late"
            );
            assert_eq!(late, 0, "{guard:?}");
        }
    }
}
