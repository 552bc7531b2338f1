use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fencing_protocol::{ClientId, Released, Request, Resource};
use futures_util::FutureExt;

use super::*;
use crate::lock::error::{AcquireError, Loss, RenewError};
use crate::time::{Clock, ManualClock, SystemClock, Time};

/// The runtime's clock, which stops and jumps in paused tests.
#[derive(Debug, Clone)]
struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn now(&self) -> Time {
        Time::from_start(Duration::from_secs(1000) + self.0.elapsed())
    }
}

fn nodes(count: usize) -> (Vec<MemoryNode>, TokioClock) {
    let clock = TokioClock(tokio::time::Instant::now());
    let node = |number| MemoryNode::with_clock(format!("memory-{number}"), clock.clone());
    ((0..count).map(node).collect(), clock)
}

fn service(nodes: &[MemoryNode], clock: &TokioClock) -> RedlockBuilder {
    Redlock::builder().nodes(nodes.iter().cloned()).clock(clock.clone())
}

fn resource() -> Resource {
    Resource::new("invoice/42").unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_watchdog_renews_until_max_hold() {
    let (nodes, clock) = nodes(5);
    let most = Duration::from_secs(60);
    let redlock = service(&nodes, &clock).max_hold(most).build().unwrap();
    let lease = redlock.acquire(&resource()).await.unwrap();
    let start = clock.now();
    assert_eq!(lease.lost().await, Loss::MaxHold);
    let held = clock.now().since(start);
    assert!(held > most - Duration::from_secs(1) && held <= most + Duration::from_secs(1), "{held:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_not_renewed_drops_the_work_at_its_deadline() {
    let (nodes, clock) = nodes(3);
    let redlock = service(&nodes, &clock).renew(false).build().unwrap();
    let lease = redlock.acquire(&resource()).await.unwrap();
    let lost = lease.run(std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(lost.loss, Loss::Expired);
    assert_eq!(lease.valid_for(), Duration::ZERO);
    let next = redlock.acquire(&resource()).await.unwrap();
    assert!(next.token() > lease.token());
    assert_eq!(lease.release().await, Ok(Released::Lapsed));
}

#[tokio::test(start_paused = true)]
async fn a_minority_that_forgets_comes_back_by_itself() {
    let (nodes, clock) = nodes(5);
    let redlock = service(&nodes, &clock).build().unwrap();
    let mut last = None;
    for round in 0..30 {
        let forgetful = &nodes[round % 5];
        if round % 2 == 0 {
            forgetful.restart()
        } else {
            forgetful.flush()
        }
        let lease = redlock.acquire(&resource()).await.unwrap();
        assert!(last < Some(lease.token()), "round {round}");
        last = Some(lease.token());
        lease.release().await.unwrap();
        tokio::time::sleep(Duration::from_secs(12)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_values_are_named() {
    let (nodes, clock) = nodes(3);
    let error = service(&nodes, &clock).ttl(Duration::ZERO).build().unwrap_err();
    assert_eq!(error.setting(), "ttl");
    let error = Redlock::builder().build().unwrap_err();
    assert_eq!(error.setting(), "nodes");
    let twice = nodes.iter().chain(&nodes).cloned();
    let error = Redlock::builder().nodes(twice).build().unwrap_err();
    assert_eq!(error.to_string(), "nodes: memory-0 is given twice");
}

#[tokio::test(start_paused = true)]
async fn another_ttl_shares_nodes_and_queues() {
    let (nodes, clock) = nodes(3);
    let redlock = service(&nodes, &clock).build().unwrap();
    let long = redlock.with_ttl(Duration::from_secs(60)).unwrap();
    let lease = long.acquire(&resource()).await.unwrap();
    assert!(lease.valid_for() > Duration::from_secs(50));
    let hasty = redlock.with_wait(Duration::ZERO).unwrap();
    let start = clock.now();
    assert!(matches!(hasty.acquire(&resource()).await, Err(AcquireError::Held { .. })));
    assert!(clock.now().since(start) < Duration::from_secs(1));
    let error = redlock.with_ttl(Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.to_string(), "ttl: with 20ms, node_budget: 50ms is not between 1ms and 10ms");
}

#[tokio::test(start_paused = true)]
async fn a_lease_without_a_watchdog_is_renewed_by_hand_until_it_is_over() {
    let (nodes, clock) = nodes(3);
    let builder = service(&nodes, &clock).renew(false).max_hold(Duration::from_secs(15));
    let redlock = builder.build().unwrap();
    let lease = redlock.acquire(&resource()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(lease.valid_for() < Duration::from_secs(2));
    let valid = lease.renew().await.unwrap();
    assert!(valid > Duration::from_secs(6), "{valid:?}");
    // The longest hold is the end of it.
    assert_eq!(lease.renew().await, Ok(lease.valid_for()));
    tokio::time::sleep(Duration::from_secs(8)).await;
    let error = lease.renew().await.unwrap_err();
    assert!(matches!(&error, RenewError::Lost(lost) if lost.loss == Loss::MaxHold), "{error}");
    let lease = redlock.acquire(&resource()).await.unwrap();
    nodes[..2].iter().for_each(|node| node.restart());
    let error = lease.renew().await.unwrap_err();
    assert!(matches!(error, RenewError::Failed { .. }), "{error}");
    assert!(!lease.valid_for().is_zero());
}

/// Waits for a future on this thread, without any runtime.
fn wait<F: Future>(future: F) -> F::Output {
    struct Thread(std::thread::Thread);
    impl std::task::Wake for Thread {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Thread(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

fn real_service(ttl: Duration) -> Redlock {
    let nodes = (0..3).map(|number| MemoryNode::new(format!("{number}")));
    let builder = Redlock::builder().nodes(nodes).first_start(true).ttl(ttl);
    builder.node_budget(ttl / 4).build().unwrap()
}

#[test]
fn outside_of_tokio_there_is_an_error_and_no_panic() {
    let (redlock, resource) = (real_service(Duration::from_secs(60)), resource());
    let error = wait(redlock.acquire(&resource)).unwrap_err();
    assert!(error.to_string().contains("this process: "), "{error}");
    assert!(error.to_string().contains("outside of a tokio runtime"), "{error}");
    assert!(wait(redlock.try_acquire(&resource)).is_err());
    assert!(!wait(redlock.health()).has_quorum());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let lease = runtime.block_on(redlock.acquire(&resource)).unwrap();
    // The lease's own runtime does what has to be sent.
    assert!(wait(lease.renew()).is_ok());
    assert_eq!(wait(lease.run(async { 7 })), Ok(7));
    assert_eq!(wait(lease.release()), Ok(Released::Released));
}

#[test]
fn a_lease_outlives_its_runtime_and_ends_at_its_deadline_anywhere() {
    let [brief, lasting] = [Duration::from_millis(700), Duration::from_secs(60)].map(real_service);
    let resource = resource();
    let acquire = |redlock: &Redlock| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(redlock.acquire(&resource)).unwrap()
    };
    let other = tokio::runtime::Runtime::new().unwrap();
    let lease = acquire(&brief);
    assert_eq!(other.block_on(lease.lost()), Loss::Expired);
    assert!(other.block_on(lease.run(std::future::pending::<()>())).is_err());
    assert_eq!(other.block_on(lease.release()), Ok(Released::Lapsed));
    // Another runtime does what the lease's own can't do any more.
    let lease = acquire(&lasting);
    assert!(other.block_on(lease.renew()).is_ok());
    assert_eq!(other.block_on(lease.release()), Ok(Released::Released));
    // No runtime at all.
    let lease = acquire(&brief);
    assert_eq!(wait(lease.lost()), Loss::Expired);
    assert!(wait(lease.run(std::future::pending::<()>())).is_err());
    assert_eq!(wait(lease.release()), Ok(Released::Lapsed));
    let lease = acquire(&lasting);
    let gone = "this process: connection lost: the runtime is gone";
    let error = wait(lease.renew()).unwrap_err();
    assert!(matches!(error, RenewError::Failed { .. }));
    assert!(error.to_string().ends_with(gone), "{error}");
    let error = wait(lease.release()).unwrap_err();
    assert!(error.to_string().ends_with(gone), "{error}");
}

/// A renewal that the caller has given up revives nothing behind its back.
#[test]
fn a_renewal_that_is_dropped_outside_of_a_runtime_does_not_count() {
    let (clock, resource) = (ManualClock::default(), resource());
    let nodes = ["a", "b", "c"].map(MemoryNode::new);
    let builder = Redlock::builder().nodes(nodes).first_start(true).clock(clock.clone());
    let redlock = builder.renew(false).build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lease = runtime.block_on(redlock.acquire(&resource)).unwrap();
    clock.advance(Duration::from_secs(1));
    let before = lease.valid_for();
    assert!(lease.renew().now_or_never().is_none());
    runtime.block_on(async { tokio::time::sleep(Duration::from_millis(100)).await });
    assert_eq!(lease.valid_for(), before);
}

#[tokio::test]
async fn a_client_that_waits_learns_that_the_node_has_restarted() {
    let node = MemoryNode::new("a");
    let mut listener = node.listen(ClientId(1)).await.unwrap();
    assert!(listener.next().now_or_never().is_none());
    node.restart();
    assert!(listener.next().now_or_never().unwrap().is_err());
}

/// So many attempts are under way that no other may ask: callers wait no longer than they said.
#[tokio::test(start_paused = true)]
async fn an_overloaded_client_says_so_within_the_wait() {
    let (nodes, clock) = nodes(3);
    let redlock = service(&nodes, &clock).ttl(Duration::from_secs(3600)).build().unwrap();
    let (redlock, resource) = (redlock.with_wait(Duration::from_secs(1)).unwrap(), resource());
    let mut permits = Vec::new();
    while let Some(permit) = redlock.backend.permit(Duration::ZERO).await {
        permits.push(permit);
    }
    let errors = futures_util::join!(
        async { redlock.acquire(&resource).await.unwrap_err() },
        async { redlock.acquire_shared(&resource).await.unwrap_err() },
        async { redlock.acquire_any(std::slice::from_ref(&resource)).await.unwrap_err() },
        async { redlock.acquire_all(std::slice::from_ref(&resource)).await.unwrap_err() },
    );
    let (one, two, three, four) = errors;
    for error in [one, two, three, four] {
        assert!(matches!(error, AcquireError::Overloaded { .. }), "{error}");
    }
    let took = clock.0.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(redlock.try_acquire(&resource).await.is_err());
    assert!(clock.0.elapsed() < took + Duration::from_secs(31));
}

/// A runtime that ends takes no task: the next request starts one elsewhere.
#[test]
fn a_release_while_the_runtime_ends_leaves_the_service_usable() {
    let redlock = real_service(Duration::from_secs(60));
    for name in ["first", "second", "third"] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let lease = runtime.block_on(redlock.acquire(&Resource::new(name).unwrap())).unwrap();
        runtime.spawn(async move {
            let _lease = lease;
            std::future::pending::<()>().await;
        });
    }
}

/// Tokio panics where a timer is made without its driver: the next request starts the task elsewhere.
#[test]
fn a_runtime_without_timers_leaves_the_service_usable() {
    let (redlock, resource) = (real_service(Duration::from_secs(60)), resource());
    let without = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let health = std::panic::AssertUnwindSafe(|| without.block_on(redlock.health()));
    assert!(std::panic::catch_unwind(health).is_err());
    drop(without);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    assert!(runtime.block_on(redlock.acquire(&resource)).is_ok());
}

/// A clock that counts how often it is read.
#[derive(Debug, Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl Clock for Counting {
    fn now(&self) -> Time {
        self.0.fetch_add(1, Ordering::SeqCst);
        SystemClock.now()
    }
}

/// The runtime of the lanes is stuck, and they are full: a request that is refused at once is not repeated.
#[test]
fn full_lanes_refuse_at_once_and_once() {
    let (nodes, clock) = (["a", "b", "c"].map(MemoryNode::new), Counting::default());
    let redlock = Redlock::builder().nodes(nodes).clock(clock.clone()).build().unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let still = runtime();
    let entered = still.enter();
    for _ in 0..=100_000 {
        drop(redlock.backend.submit_all(&Request::Read));
    }
    drop(entered);
    let before = clock.0.load(Ordering::SeqCst);
    let error = runtime().block_on(redlock.try_acquire(&resource())).unwrap_err();
    assert!(matches!(error, AcquireError::Overloaded { .. }), "{error}");
    let read = clock.0.load(Ordering::SeqCst) - before;
    assert!(read < 100, "{read}");
}

/// A process that acquires leases under ever new names, and leaves them to other processes, does not run out of memory.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_left_keeps_no_queue() {
    let (nodes, clock) = nodes(3);
    let redlock = service(&nodes, &clock).build().unwrap();
    for number in 0..200 {
        redlock.acquire(&Resource::new(format!("job/{number}")).unwrap()).await.unwrap().leave();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(redlock.queues.one.lock().len() <= 128, "{}", redlock.queues.one.lock().len());
}

/// The ticket is fine, and its lease goes on: only this client can't renew it.
#[tokio::test(start_paused = true)]
async fn a_ticket_that_does_not_fit_the_settings_is_no_lost_lease() {
    let (nodes, clock) = nodes(3);
    let redlock = service(&nodes, &clock).ttl(Duration::from_secs(2)).build().unwrap();
    let lease = redlock.acquire(&resource()).await.unwrap();
    let ticket = lease.ticket().unwrap();
    let slow =
        service(&nodes, &clock).ttl(Duration::from_secs(60)).node_budget(Duration::from_secs(5)).build().unwrap();
    let resumed = slow.resume(&ticket).await.unwrap_err();
    assert!(matches!(&resumed, RenewError::Failed { causes, .. } if causes.len() == 1), "{resumed}");
    lease.release().await.unwrap();
}

/// The process that goes on with a lease has its lock-delay, and not one of its own.
#[tokio::test(start_paused = true)]
async fn a_lease_that_lapsed_is_not_resumed_in_its_lock_delay() {
    let (nodes, clock) = nodes(3);
    let (ttl, delay) = (Duration::from_secs(10), Duration::from_secs(60));
    let one = service(&nodes, &clock).ttl(ttl).renew(false).lock_delay(delay).build().unwrap();
    let other = service(&nodes, &clock).ttl(ttl).renew(false).build().unwrap();
    let lease = one.acquire(&resource()).await.unwrap();
    let ticket = lease.ticket().unwrap();
    tokio::time::sleep(ttl / 2).await;
    let resumed = other.resume(&ticket).await.unwrap();
    lease.renew().await.unwrap();
    assert_eq!(resumed.lost().await, Loss::Expired);
    assert_eq!(lease.lost().await, Loss::Expired);
    tokio::time::sleep(delay / 2).await;
    let late = other.resume(&ticket).await.unwrap_err();
    assert!(matches!(&late, RenewError::Lost(lost) if lost.loss == Loss::Expired), "{late}");
}
