//! A place in the line of waiting clients, and a lock that stays closed for a time.

use super::*;

#[tokio::test]
async fn a_place_that_is_taken_late_is_taken_back() {
    let cluster = EtcdCluster::start();
    let ((proxy, one), budget) = (beside(&cluster).await, Duration::from_secs(3));
    // No renewal is due while requests are held.
    let one = one.ttl(Duration::from_secs(20)).budget(budget).build().unwrap();
    // It keeps the session, and with it every place.
    let kept = one.acquire(&named("kept")).await.unwrap();
    let held = lock(&cluster).build().unwrap().acquire(&resource()).await.unwrap();
    proxy.set(Mode::HoldFrom("fencing/q/"));
    let waits = timeout(budget * 2, one.acquire(&resource())).await;
    assert!(waits.is_err(), "{waits:?}");
    in_time(one.settle()).await;
    proxy.deliver().await;
    until("the place is gone", async || !is_there(&cluster, "fencing/q/")).await;
    // What was delivered has been answered.
    sleep(Duration::from_millis(500)).await;
    assert!(!is_there(&cluster, "fencing/q/"));
    release(held).await;
    until("it is renewed", async || kept.renew().await.is_ok()).await;
}

/// Sweeps go on meanwhile, of what others of its process give up.
#[tokio::test]
async fn readers_are_kept_out_until_a_writer_has_the_lock() {
    let cluster = EtcdCluster::start();
    let (one, other) = (lock(&cluster).build().unwrap(), lock(&cluster).build().unwrap());
    let part = other.acquire_shared(&resource()).await.unwrap();
    let sweeps = async {
        loop {
            drop(polled(one.acquire(&named("else")), 3).await);
            sleep(Duration::from_millis(20)).await;
        }
    };
    let readers = async {
        let shares = async || other.try_acquire_shared(&resource()).await.is_ok();
        until("readers are kept out", async || is_there(&cluster, "fencing/d/") && !shares().await).await;
        release(part).await;
    };
    let writes = async { in_time(join(one.acquire(&resource()), readers)).await.0.unwrap() };
    let lease = tokio::select! {
        lease = writes => lease,
        () = sweeps => unreachable!(),
    };
    assert!(!is_there(&cluster, "fencing/d/"), "readers come next");
    release(lease).await;
    release(in_time(other.acquire_shared(&resource())).await.unwrap()).await;
}

/// A job that a process does once, and ends.
#[test]
fn a_lock_stays_closed_after_its_process_and_then_ends() {
    let cluster = EtcdCluster::start();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let job = runtime();
    let least = lock(&cluster).lock_at_least_for(Duration::from_secs(6)).build().unwrap();
    let asked = Instant::now();
    job.block_on(async { release(least.acquire(&resource()).await.unwrap()).await });
    drop((least, job));
    let other = lock(&cluster).build().unwrap();
    runtime().block_on(async {
        let found = other.try_acquire(&resource()).await;
        if asked.elapsed() < Duration::from_secs(6) {
            // Less than the TTL: it says so to other processes, too.
            let Err(AcquireError::Held { retry_after, holder, .. }) = found else { panic!("{found:?}") };
            assert!(retry_after <= Duration::from_secs(6), "{retry_after:?}");
            assert_eq!(holder.unwrap().name.as_deref(), Some("billing-7"));
        }
        release(in_time(other.acquire(&resource())).await.unwrap()).await;
        assert!(asked.elapsed() >= Duration::from_millis(5900), "{:?}", asked.elapsed());
    });
}
