use super::end::reported;
use super::*;

/// Checks that the leases of a lock service end as they must.
///
/// Build the service so that it does not renew them, with a TTL of a few seconds at most.
pub async fn lapse_contract(lock: &impl Lock) {
    let resource = resource("lapse");
    let first = acquire(lock, &resource).await;
    let ends = join(first.lost(), join_all([first.lost(), first.lost()]));
    reported("lost() of a lease that is not renewed", ends, Loss::Expired).await;
    assert_eq!(first.valid_for(), Duration::ZERO, "validity after the loss");

    let second = acquire(lock, &resource).await;
    let (token, before) = (second.token(), first.token());
    assert!(token > before, "acquire after {before} lapsed: {token:?}");
    let found = first.release().await;
    assert_eq!(found, Ok(Released::Lapsed), "release a lapsed lease");
    let found = lock.try_acquire(&resource).await;
    refused(&found, &resource, "try_acquire after a lapsed lease's release");
    let left = second.valid_for();
    assert!(!left.is_zero(), "validity after a lapsed lease's release: {left:?}");

    let case = "work under a lease that is not renewed";
    let lost = answered(case, second.run(pending::<()>())).await.unwrap_err();
    assert_eq!((lost.token, lost.loss), (token, Loss::Expired), "{case}");
    assert!(second.run(async {}).await.is_err(), "work under a lapsed lease");
}
