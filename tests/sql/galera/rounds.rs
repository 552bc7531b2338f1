//! Two writers on two nodes, round after round, with pauses.

use fencing::sql::Retry;

use super::*;

/// Shuts older tokens out by a transaction that only reads. What it has read.
async fn new(pool: &MySqlPool, own: u64) -> i64 {
    let attempt = || async {
        let mut tx = begin(pool, own).await?;
        pause().await;
        let read = sqlx::query_scalar("SELECT token FROM files").fetch_one(&mut *tx).await?;
        pause().await;
        tx.commit().await?;
        Ok::<_, AdmitError>(read)
    };
    sql::retry(Retry::new().tries(100), attempt).await.unwrap()
}

/// How many rounds were refused, and in how many the file changed after the newer token had read it.
async fn play(cluster: &Cluster, swapped: bool, rounds: u64, writer: Writer) -> (u64, u64) {
    let (here, there) = if swapped { (&cluster.two, &cluster.one) } else { (&cluster.one, &cluster.two) };
    let start = sql::highest(here, &resource()).await.unwrap().map_or(1, |mark| mark.get() + 1);
    let (mut refused, mut late) = (0, 0);
    for number in (start..).step_by(2).take(rounds.try_into().unwrap()) {
        if fastrand::bool() {
            // The mark is equal already.
            raise(here, &resource(), number).await;
            cluster.settled().await;
        }
        let old = async {
            tokio::time::sleep(Duration::from_micros(fastrand::u64(..4000))).await;
            crate::common::writer(async |number| writer.write(here, number).await, number).await
        };
        let (done, read) = tokio::join!(old, new(there, number + 1));
        refused += u64::from(!done);
        cluster.settled().await;
        late += u64::from(cluster.token(there).await != read);
    }
    (refused, late)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_stale_write_lands_in_either_direction() {
    let cluster = Cluster::ready().await;
    let unfenced = async || play(&cluster, false, 100, Writer::new(Way::Unfenced)).await.1 > 0;
    until("without the guard a stale write lands", unfenced).await;
    for (way, protected) in [(Way::Begin, false), (Way::Begin, true), (Way::Present, true)] {
        if protected {
            Protect::rows("files", "path").unwrap().apply(&cluster.one).await.unwrap();
            cluster.settled().await;
        }
        for swapped in [false, true] {
            let (rounds, writer) = (rounds(), Writer { way, level: None, protected });
            let (refused, late) = play(&cluster, swapped, rounds, writer).await;
            println!("{writer:?}, swapped {swapped}: {rounds} rounds, {refused} refused, {late} late");
            assert_eq!(late, 0, "{writer:?}");
        }
    }
}
