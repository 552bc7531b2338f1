use super::*;

/// How long the suite has a lock stay closed: less than any TTL that it runs with.
const LEAST: Duration = Duration::from_millis(700);

/// Checks that a lease which is released or dropped is over for each who awaits that, and that its locks are free then.
pub async fn ends<K: Send>(lock: &dyn Lock, names: &[Resource], acquire: impl AsyncFn() -> Lease<K>) {
    for case in ["after a release", "after a drop", "after a drop without a runtime", "after a release was polled once"]
    {
        let lease = acquire().await;
        let mut early = pin!(lease.lost());
        let early_loss = polled(&mut early, 1).await;
        assert_eq!(early_loss, None, "lost() of a lease that lasts: {lease:?}");
        let awaiters = [lease.lost(), lease.lost(), lease.lost()];
        match case {
            "after a release" => release(lease).await,
            "after a drop" => drop(lease),
            "after a drop without a runtime" => std::thread::scope(|scope| drop(scope.spawn(|| drop(lease)))),
            // After its first poll a release goes on without its future.
            _ => drop(polled(lease.release(), 1).await),
        }
        reported(case, join(early, join_all(awaiters)), Loss::Released).await;
        for resource in names {
            free(lock, resource, case).await;
        }
    }
}

pub async fn cancel(lock: &dyn Lock) {
    let resource = &resource("cancel");
    let alone = std::slice::from_ref(resource);
    dropped(lock, alone, "an acquisition", || lock.acquire(resource)).await;
    dropped(lock, alone, "an acquisition", || lock.try_acquire(resource)).await;
}

pub async fn reported(case: &str, awaiters: impl Future<Output = (Loss, Vec<Loss>)>, loss: Loss) {
    let (first, mut all) = answered(case, awaiters).await;
    all.push(first);
    assert!(all.iter().all(|reported| *reported == loss), "{case}: {all:?}");
}

pub async fn work(lock: &dyn Lock) {
    let lease = acquire(lock, &resource("work")).await;
    assert_eq!(lease.run(async { 1 }).await, Ok(1), "run what is ready");
    let moment = lease.run(sleep(Duration::from_millis(10))).await;
    assert_eq!(moment, Ok(()), "run what takes a moment");
    assert!(polled(lease.run(pending::<()>()), 1).await.is_none());
    let left = lease.valid_for();
    assert!(!left.is_zero(), "the validity after work was dropped: {left:?}");
    release(lease).await
}

/// Checks that a lock which was released early stays closed, for as long as it has to and no longer.
pub async fn stays_closed(lock: &dyn Lock) {
    let resource = resource("at least");
    let least = lock.with_lock_at_least_for(LEAST).unwrap();
    for dropped in [false, true] {
        let start = Instant::now();
        let lease = acquire(&least, &resource).await;
        let lost = lease.lost();
        match dropped {
            true => drop(lease),
            false => release(lease).await,
        }
        assert_eq!(lost.await, Loss::Released, "lost() after the release");
        // An answer that came after the end proves nothing.
        let found = lock.try_acquire(&resource).await;
        let held = matches!(&found, Err(AcquireError::Held { retry_after, .. })
            if *retry_after <= LEAST);
        assert!(held || start.elapsed() >= LEAST, "try_acquire what was released early: {found:?}");
        drop(found);
        let next = acquire(lock, &resource).await;
        // Two clocks may run apart by a little.
        let waited = start.elapsed();
        assert!(waited >= LEAST * 99 / 100, "acquire what was released early: {waited:?}");
        release(next).await;
    }
    let longer = lock.with_lock_at_least_for(Duration::MAX);
    assert!(longer.is_err(), "a time that is longer than the TTL");
}

/// Checks that the leases of a lock service end as they must.
///
/// Build the service so that it does not renew them, with a TTL of a few seconds at most.
pub async fn lapse_contract(lock: &dyn Lock) {
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
