//! Transactions whose snapshot is older than the mark.

use fencing::fence::{FenceError, Marks};
use fencing::sql::{self, SqlMarks};
use futures_util::future::join_all;
use sqlx::Postgres;

use super::place::Place;
use crate::common::{resource, token};

#[tokio::test]
async fn sessions_of_any_default_level_migrate_and_raise() {
    for level in ["read committed", "repeatable read", "serializable"] {
        let place = Place::empty().await;
        let pools = [0; 4].map(|_| place.with(&[("default_transaction_isolation", level)]));
        for migrated in join_all(pools.iter().map(sql::migrate::<Postgres>)).await {
            migrated.unwrap();
        }
        let raises = pools.iter().map(async |pool| {
            for number in 1..=10 {
                match SqlMarks::new(pool.clone()).raise(&resource(), token(number)).await {
                    Ok(()) | Err(FenceError::Stale(_)) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        });
        join_all(raises).await;
        let highest = sql::highest(&place.pool, &resource()).await.unwrap();
        assert_eq!(highest, Some(token(10)), "{level}");
    }
}
