//! Transactions whose snapshot is older than the mark.

use fencing::fence::Marks;
use fencing::sql::{self, SqlMarks};
use sqlx::{Postgres, Transaction};

use super::place::{LEVELS, Place};
use super::setup::{migrated, number, raise};
use crate::common::{resource, retryable, stale, token};

/// A transaction that has taken its snapshot, if its level has one.
async fn snapshot(place: &Place, level: &'static str) -> Transaction<'static, Postgres> {
    let mut tx = place.pool.begin_with(level).await.unwrap();
    number(&mut *tx, "SELECT count(*) FROM fencing_marks").await;
    tx
}

/// The mark before the snapshot (0: none) and after it, and the token presented.
const CASES: &[(u64, u64, u64)] = &[
    (0, 34, 33),
    (0, 34, 34),
    (0, 34, 35),
    (33, 34, 33),
    (32, 34, 33),
    (32, 33, 33),
    (32, 34, 35),
    (34, 35, 33),
];

#[tokio::test]
async fn an_old_snapshot_never_lets_a_stale_token_in() {
    for &level in LEVELS {
        for &(before, after, presented) in CASES {
            let case = format!("{level}: {before} {after} {presented}");
            let place = migrated().await;
            if before > 0 {
                raise(&place.pool, &resource(), before).await;
            }
            let mut tx = snapshot(&place, level).await;
            raise(&place.pool, &resource(), after).await;
            let result = sql::admit(&mut tx, &resource(), token(presented)).await;
            if level.ends_with("COMMITTED") {
                if presented < after {
                    assert_eq!(stale(result).highest, token(after), "{case}");
                } else {
                    result.unwrap();
                }
            } else if presented < before {
                // Stale in the snapshot already, which says how high the mark was then.
                assert_eq!(stale(result).highest, token(before), "{case}");
            } else {
                retryable(result);
            }
        }
    }
}

#[tokio::test]
async fn sessions_of_any_default_level_migrate_and_raise() {
    for level in ["read committed", "repeatable read", "serializable"] {
        let place = Place::empty().await;
        let pools = [0; 4].map(|_| place.with(&[("default_transaction_isolation", level)]));
        let starts = pools.clone().map(|pool| {
            tokio::spawn(async move {
                sql::migrate(&pool).await.unwrap();
            })
        });
        for start in starts {
            start.await.unwrap();
        }
        let raises = pools.map(|pool| {
            tokio::spawn(async move {
                for number in 1..=10 {
                    let marks = SqlMarks::new(pool.clone());
                    match marks.raise(&resource(), token(number)).await {
                        Ok(()) | Err(fencing::fence::FenceError::Stale(_)) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
            })
        });
        for raise in raises {
            raise.await.unwrap();
        }
        let highest = sql::highest(&place.pool, &resource()).await.unwrap();
        assert_eq!(highest, Some(token(10)), "{level}");
    }
}
