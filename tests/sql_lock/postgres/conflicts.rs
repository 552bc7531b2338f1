//! Other transactions in the way, as PostgreSQL alone has them.

use super::server::conflicts::{LOCK_ROW, by_hand, nothing_waits, service};
use super::suite::ready;
use crate::common::*;

#[tokio::test]
async fn a_row_that_somebody_keeps_locked_holds_no_renewal_or_release_up() {
    let place = ready().await;
    let lock = service(&place.other(), Duration::from_secs(2));
    let lease = lock.acquire(&resource()).await.unwrap();
    let by_hand = by_hand(&place, LOCK_ROW).await;
    lease.renew().await.unwrap_err();
    nothing_waits(&place).await;
    lease.release().await.unwrap_err();
    nothing_waits(&place).await;
    by_hand.rollback().await.unwrap();
    // It is tried again.
    let patient = service(&place.other(), LONG / 3);
    drop(timeout(LONG / 2, patient.acquire(&resource())).await.unwrap().unwrap());
}
