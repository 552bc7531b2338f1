//! Marks of a fence, while somebody sleeps in a transaction.

use std::time::{Duration, Instant};

use fencing::fence::FenceError;
use fencing::sql::{self, SqlMarks};
use fencing::{Fence, Resource};

use super::place::Place;
use crate::common::{resource, token};

#[tokio::test]
async fn a_client_asleep_in_its_transaction_holds_up_its_own_resource_only() {
    let place = Place::empty().await;
    sql::migrate(&place.pool).await.unwrap();
    let mut asleep = sql::begin(&place.pool, &resource(), token(33)).await.unwrap();
    let pool = place.other();
    let fence = Fence::new(SqlMarks::new(pool.clone())).limit(Duration::from_millis(500));
    let newer = (0..2 * pool.options().get_max_connections()).map(|_| {
        let fence = fence.clone();
        tokio::spawn(async move { fence.admit(&resource(), token(34)).await.map(drop) })
    });
    for newer in newer.collect::<Vec<_>>() {
        assert!(matches!(newer.await.unwrap(), Err(FenceError::Unreachable(_))));
    }
    // Sooner than the 20 s that the server lets a statement wait here.
    let (other, end) = (Resource::new("other").unwrap(), Instant::now() + Duration::from_secs(12));
    while fence.admit(&other, token(2)).await.is_err() {
        assert!(Instant::now() < end, "the pool is taken");
    }
    sqlx::query("SELECT 1").execute(&mut *asleep).await.unwrap();
    asleep.commit().await.unwrap();
    let fence = fence.limit(Duration::from_secs(20));
    assert!(fence.admit(&resource(), token(34)).await.is_ok());
}
