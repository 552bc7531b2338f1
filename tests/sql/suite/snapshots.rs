//! Transactions whose snapshot may be older than the mark, or than what was written under it.

use super::writers::{layered, waits};
use super::*;

/// The mark before the snapshot (0: none) and after it, and the token presented.
const CASES: &[(u64, u64, u64)] =
    &[(0, 34, 33), (0, 34, 34), (0, 34, 35), (33, 34, 33), (32, 34, 33), (32, 33, 33), (32, 34, 35), (34, 35, 33)];

/// A transaction that has taken its snapshot, if its level has one.
pub async fn snapshot(pool: &Pool<Db>, level: &'static str) -> Transaction<'static, Db> {
    let mut tx = pool.begin_with(level).await.unwrap();
    number(&mut *tx, "SELECT count(*) FROM files").await;
    tx
}

#[tokio::test]
async fn an_old_snapshot_never_lets_a_stale_token_in() {
    no_snapshot_lets_a_stale_token_in(|place| place.pool.clone(), true).await;
}

/// With a pool of these sessions, whose snapshots may be in conflict with what came later, or never are.
pub async fn no_snapshot_lets_a_stale_token_in(pool: impl Fn(&Place) -> Pool<Db>, conflicts: bool) {
    for &level in LEVELS {
        let snapshots = !level.ends_with(" COMMITTED");
        let place = ready().await;
        let pool = pool(&place);
        for &(before, after, presented) in CASES {
            let case = format!("{level}: {before} {after} {presented}");
            let name = named(&case);
            if before > 0 {
                raise(&place.pool, &name, before).await;
            }
            let mut old = snapshot(&pool, level).await;
            match sql::begin(&place.pool, &name, token(after)).await {
                // SQLite has one writer.
                Err(AdmitError::Retryable(_)) if place::STATES.is_empty() => {
                    old.rollback().await.unwrap();
                    continue;
                }
                newer => newer.unwrap().commit().await.unwrap(),
            }
            match sql::admit(&mut old, &name, token(presented)).await {
                Ok(()) => assert!(presented >= after, "{case}"),
                // It may be stale in the snapshot already, which says how high the mark was then.
                Err(AdmitError::Stale(stale)) => {
                    assert!(presented < after, "{case}");
                    let was = snapshots && presented < before;
                    let highest = stale.highest.get();
                    assert!(highest == after || was && highest == before, "{case}: {stale}");
                }
                Err(AdmitError::Retryable(_)) => {
                    assert!(conflicts && snapshots, "{case}");
                }
                Err(error) => panic!("{case}: {error:?}"),
            }
            old.rollback().await.unwrap();
        }
    }
}

/// Who waits for an older holder, of one of several resources as well: the row of the mark does not tell that 33 wrote,
/// only when the snapshot was taken does.
#[tokio::test]
async fn who_waited_reads_what_was_written_meanwhile() {
    for (&level, several) in place::DEFAULTS.iter().flat_map(|level| [(level, false), (level, true)]) {
        let place = ready().await;
        let pool = place.at(level);
        let both = [own(34), fencing::Sequencer::new(named("files/b"), token(34))];
        let held = if several { &both[1].resource } else { &both[0].resource };
        if !several {
            raise(&place.pool, held, 33).await;
        }
        let mut old = sql::begin(&pool, held, token(33)).await.unwrap();
        let newer = async || match several {
            true => Transactions::begin(&pool, &both).await.map_err(layered),
            false => begin(&pool, 34).await,
        };
        let written = async {
            run(&mut *old, "UPDATE files SET token = token + 100").await;
            old.commit().await.unwrap();
        };
        let mut new = waits(&place, newer, written).await;
        assert_eq!(number(&mut *new, "SELECT token FROM files").await, 100, "{level}");
        new.rollback().await.unwrap();
    }
}
