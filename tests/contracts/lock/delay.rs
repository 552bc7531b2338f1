use super::*;

/// Checks that the locks of a lease which is lost stay closed for the lock delay, whether its holder keeps it or drops
/// it, and that there is none after a release or a drop in time.
///
/// Build the first so that it does not renew, with a TTL and a lock delay of a few seconds at most, and `patient` with a
/// lock delay that is far longer.
pub async fn delay_contract(lock: &dyn Lock, patient: &dyn Lock, other: &dyn Lock, delay: Duration) {
    let resource = resource("delay");
    for dropped in [false, true] {
        let lease = acquire(lock, &resource).await;
        stays(lock, other, lease, dropped, delay).await;
    }
    let part = share(lock, &resource).await;
    stays(lock, other, part, true, delay).await;
    release(acquire(patient, &resource).await).await;
    free(other, &resource, "after a release, which has no lock delay").await;
    drop(acquire(patient, &resource).await);
    free(other, &resource, "after a drop in time, which has none either").await;
}

/// Checks it with this lease of `delay`.
async fn stays<K>(lock: &dyn Lock, other: &dyn Lock, lease: Lease<K>, dropped: bool, delay: Duration) {
    let (resource, start, left) = (&resource("delay"), Instant::now(), lease.valid_for());
    assert_eq!(answered("the end", lease.lost()).await, Loss::Expired);
    let kept = (!dropped).then_some(lease);
    // What it takes back by the way is not that one.
    drop(polled(lock.acquire(&crate::resource("delay/else")), 4).await);
    let next = acquire(other, resource).await;
    // Two clocks may run apart by a little.
    let (waited, least) = (start.elapsed(), (left + delay) * 99 / 100);
    assert!(waited >= least, "acquire after the lock delay, dropped: {dropped}: {waited:?} of {least:?}");
    release(next).await;
    drop(kept);
}
