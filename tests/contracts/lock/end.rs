use super::*;

/// Checks that a lease which is released or dropped is over for each who awaits that, and that its locks are free then.
pub async fn ends<K>(lock: &impl Lock, names: &[Resource], acquire: impl AsyncFn() -> Lease<K>) {
    for case in ["after a release", "after a drop", "after a release was polled once"] {
        let lease = acquire().await;
        let mut early = pin!(lease.lost());
        let early_loss = polled(&mut early, 1).await;
        assert_eq!(early_loss, None, "lost() of a lease that lasts: {lease:?}");
        let awaiters = [lease.lost(), lease.lost(), lease.lost()];
        match case {
            "after a release" => release(lease).await,
            "after a drop" => drop(lease),
            // After its first poll a release goes on without its future.
            _ => drop(polled(lease.release(), 1).await),
        }
        reported(case, join(early, join_all(awaiters)), Loss::Released).await;
        for resource in names {
            free(lock, resource, case).await;
        }
    }
}

pub async fn cancel(lock: &impl Lock) {
    let resource = &resource("cancel");
    let alone = std::slice::from_ref(resource);
    dropped(lock, alone, "an acquisition", || lock.acquire(resource)).await;
    dropped(lock, alone, "an acquisition", || lock.try_acquire(resource)).await;
}

/// Checks that each awaiter learns of this loss.
pub async fn reported(case: &str, awaiters: impl Future<Output = (Loss, Vec<Loss>)>, loss: Loss) {
    let (first, mut all) = answered(case, awaiters).await;
    all.push(first);
    assert!(all.iter().all(|reported| *reported == loss), "{case}: {all:?}");
}

pub async fn work(lock: &impl Lock) {
    let lease = acquire(lock, &resource("work")).await;
    assert_eq!(lease.run(async { 1 }).await, Ok(1), "run what is ready");
    let moment = lease.run(sleep(Duration::from_millis(10))).await;
    assert_eq!(moment, Ok(()), "run what takes a moment");
    assert!(polled(lease.run(pending::<()>()), 1).await.is_none());
    let left = lease.valid_for();
    assert!(!left.is_zero(), "the validity after work was dropped: {left:?}");
    release(lease).await
}
