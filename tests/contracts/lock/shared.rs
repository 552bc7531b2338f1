use super::end::ends;
use super::*;

pub async fn shared_contract(lock: &dyn Lock, other: &dyn Lock) {
    together(lock).await;
    alone(lock).await;
    let names = [resource("shared/ends")];
    ends(lock, &names, async || share(lock, &names[0]).await).await;
    cancel(lock).await;
    waits(lock, other).await;
    turns(lock).await;
    mixed_contract(&[lock, other]).await
}

async fn is_held(lock: &dyn Lock, resource: &Resource, case: &str) {
    refused(&lock.try_acquire(resource).await, resource, case);
}

/// Several hold it together, and nobody alone beside them.
async fn together(lock: &dyn Lock) {
    let resource = resource("shared");
    let writer = acquire(lock, &resource).await;
    let before = writer.token();
    release(writer).await;
    let first = share(lock, &resource).await;
    let second = lock.try_acquire_shared(&resource).await.unwrap();
    let third = share(lock, &resource).await;
    let tokens = [first.token(), second.token(), third.token()];
    let larger = tokens.iter().all(|token| *token > before);
    assert!(larger, "share after {before}: {tokens:?}");
    assert_eq!(first.resource(), &resource, "the resource of a shared lease");
    second.renew().await.unwrap();
    is_held(lock, &resource, "try_acquire what three share").await;
    release(first).await;
    is_held(lock, &resource, "try_acquire what two share").await;
    release(third).await;
    let found = second.run(async { 1 }).await;
    assert_eq!(found, Ok(1), "run under a shared lease");
    is_held(lock, &resource, "try_acquire what one of three still shares").await;
    release(second).await;
    let next = acquire(lock, &resource).await;
    let larger = tokens.iter().all(|token| next.token() > *token);
    assert!(larger, "acquire after {tokens:?}: {:?}", next.token());
    release(next).await
}

async fn alone(lock: &dyn Lock) {
    let resource = resource("shared/alone");
    let writer = acquire(lock, &resource).await;
    let found = lock.try_acquire_shared(&resource).await;
    refused(&found, &resource, "try_acquire_shared what one holds alone");
    drop(found);
    let token = writer.token();
    let readers = join_all((0..5).map(|_| share(lock, &resource)));
    for lease in after(release(writer), readers).await {
        assert!(lease.token() > token, "acquire_shared after {token}: {lease:?}");
        release(lease).await;
    }
}

async fn cancel(lock: &dyn Lock) {
    let resource = &resource("shared/cancel");
    let alone = std::slice::from_ref(resource);
    dropped(lock, alone, "a shared acquisition", || lock.acquire_shared(resource)).await;
    dropped(lock, alone, "a shared acquisition", || lock.try_acquire_shared(resource)).await;
}

/// Who waits to hold it alone gets it when the last of those who share it has left.
async fn waits(lock: &dyn Lock, other: &dyn Lock) {
    let resource = resource("shared/waits");
    let parts = [share(lock, &resource).await, share(other, &resource).await];
    let (tokens, left) = (parts.each_ref().map(SharedLease::token), AtomicUsize::new(0));
    let holders = async {
        for part in parts {
            sleep(Duration::from_millis(100)).await;
            left.fetch_add(1, Ordering::SeqCst);
            release(part).await;
        }
    };
    let writer = async {
        let lease = acquire(lock, &resource).await;
        assert_eq!(left.load(Ordering::SeqCst), 2, "left when one holds alone");
        let larger = tokens.iter().all(|token| lease.token() > *token);
        assert!(larger, "acquire after {tokens:?}: {lease:?}");
        release(lease).await
    };
    join(holders, writer).await;
}

/// Those who share it take turns so that it is never free, and somebody waits to hold it alone.
async fn turns(lock: &dyn Lock) {
    let resource = resource("shared/turns");
    let over = AtomicBool::new(false);
    let reader = |number: u64| {
        let (over, resource) = (&over, &resource);
        async move {
            let mut inside = share(lock, resource).await;
            sleep(Duration::from_millis(40 * number)).await;
            while !over.load(Ordering::SeqCst) {
                sleep(Duration::from_millis(80)).await;
                // Another one is inside at any time.
                release(inside).await;
                inside = share(lock, resource).await;
            }
        }
    };
    let writer = async {
        sleep(Duration::from_millis(200)).await;
        let lease = acquire(lock, &resource).await;
        over.store(true, Ordering::SeqCst);
        release(lease).await;
    };
    join(join_all((0..4).map(reader)), writer).await;
}

/// Checks the order of clients of both modes at once, each again and again, through these services in turn.
pub async fn mixed_contract(locks: &[&dyn Lock]) {
    let (resource, inside) = (resource("shared/mixed"), Inside::default());
    let client = async |number: usize| {
        for round in 0..3 {
            let lock = locks[number % locks.len()];
            if (number / locks.len() + round).is_multiple_of(3) {
                let lease = acquire(lock, &resource).await;
                inside.visit(false, lease.token()).await;
                release(lease).await;
            } else {
                let lease = share(lock, &resource).await;
                inside.visit(true, lease.token()).await;
                release(lease).await;
            }
        }
    };
    join_all((0..12).map(client)).await;
}
