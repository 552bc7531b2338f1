use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fencing_protocol::{Fault, NonEmpty, Renewed};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, advance, sleep};

use super::*;
use crate::lock::backend::{Grant, HeldLock, SentRelease};
use crate::lock::settings::Settings;

const TTL: Duration = Duration::from_secs(30);

/// The runtime's clock. It panics once if it is told to.
#[derive(Clone)]
struct TestClock {
    start: Instant,
    panics: Arc<AtomicBool>,
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TestClock")
    }
}

impl Clock for TestClock {
    fn now(&self) -> Time {
        assert!(!self.panics.swap(false, Ordering::SeqCst), "a clock that panics");
        Time::from_start(Duration::from_secs(1000) + self.start.elapsed())
    }
}

/// A lock that notes when it is renewed.
struct ScriptedLock {
    clock: TestClock,
    /// How long a renewal takes, and whether it fails.
    takes: Duration,
    fails: bool,
    renewed: Mutex<Vec<Duration>>,
    /// Renewals that were dropped in the middle.
    dropped: AtomicUsize,
}

impl ScriptedLock {
    fn renewed(&self) -> Vec<Duration> {
        self.renewed.lock().clone()
    }
}

impl HeldLock for ScriptedLock {
    fn hand_out(&self) -> String {
        "scripted".to_owned()
    }

    fn renew(&self, _: bool) -> BoxFuture<'_, Result<Renewed, Vec<NodeCause>>> {
        struct Dropped<'a>(Option<&'a AtomicUsize>);
        impl Drop for Dropped<'_> {
            fn drop(&mut self) {
                self.0.map(|dropped| dropped.fetch_add(1, Ordering::SeqCst));
            }
        }
        async {
            let begin = self.clock.now();
            let before = self.renewed().len();
            assert!(before < 100, "it is renewed again and again");
            self.renewed.lock().push(self.clock.start.elapsed());
            let mut dropped = Dropped(Some(&self.dropped));
            if !self.takes.is_zero() {
                sleep(self.takes).await;
            }
            dropped.0 = None;
            let cause = || NodeCause { node: "a".into(), cause: Fault::TimedOut };
            if self.fails { Err(vec![cause()]) } else { Ok(Renewed::Until(begin + TTL)) }
        }
        .boxed()
    }

    fn release(self: Arc<Self>, _: Duration, _: bool) -> SentRelease {
        async { Ok(true) }.boxed()
    }
}

fn holding(lock: &Arc<ScriptedLock>, deadline: Time) -> Arc<Holding> {
    let locks = NonEmpty::new("1 invoice/42".parse().unwrap());
    let grant = Grant { locks, asked: Time::default(), deadline, held: Arc::<ScriptedLock>::clone(lock) };
    let settings = Settings { clock: Arc::new(lock.clock.clone()), ..Settings::new("budget", (TTL, 2)) };
    Arc::new(Holding::new(grant, &settings, Arc::default()))
}

#[derive(Default)]
struct Service(Watchdogs);

impl Service {
    fn clock() -> TestClock {
        TestClock { start: Instant::now(), panics: Arc::default() }
    }

    fn lease(&self, clock: &TestClock, takes: Duration, fails: bool) -> (Arc<ScriptedLock>, Watch) {
        let (renewed, dropped) = (Mutex::default(), AtomicUsize::new(0));
        let lock = Arc::new(ScriptedLock { clock: clock.clone(), takes, fails, renewed, dropped });
        let holding = holding(&lock, clock.now() + TTL);
        (lock, self.0.watch(&Handle::current(), holding, TTL))
    }
}

const AT_ONCE: Duration = Duration::ZERO;

/// One renewal that takes its time holds up no other.
#[tokio::test(start_paused = true)]
async fn a_slow_renewal_delays_no_other() {
    let (service, clock) = (Service::default(), Service::clock());
    let (slow, _slow) = service.lease(&clock, TTL / 2, false);
    let (quick, _quick) = service.lease(&clock, AT_ONCE, false);
    sleep(TTL + TTL / 5).await;
    assert_eq!((slow.renewed().len(), quick.renewed().len()), (2, 3));
    for (number, at) in (1..).zip(quick.renewed()) {
        assert!(at <= TTL / 3 * number + TOGETHER, "{at:?}");
    }
}

/// However many are due, each is renewed within its third, and those that are due together go together.
#[tokio::test(start_paused = true)]
async fn each_of_many_is_renewed_in_time_and_not_too_early() {
    let (service, clock) = (Service::default(), Service::clock());
    let mut leases = Vec::new();
    for _ in 0..1000 {
        let acquired = clock.start.elapsed();
        leases.push((acquired, service.lease(&clock, AT_ONCE, false)));
        advance(Duration::from_millis(1)).await;
    }
    sleep(TTL / 2).await;
    for (acquired, (lock, _watch)) in &leases {
        let first = lock.renewed()[0] - *acquired;
        assert!(first + TOGETHER >= TTL / 3 && first <= TTL / 3 + TOGETHER, "{first:?}");
    }
}

/// A lease that is over is renewed no more, and its renewal that is under way is dropped.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_let_go_in_the_middle_of_its_renewal_is_forgotten() {
    let (service, clock) = (Service::default(), Service::clock());
    let (lock, watch) = service.lease(&clock, TTL / 6, false);
    sleep(TTL / 3 + TTL / 12).await;
    assert_eq!((lock.renewed().len(), lock.dropped.load(Ordering::SeqCst)), (1, 0));
    drop(watch);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(lock.dropped.load(Ordering::SeqCst), 1);
    sleep(TTL * 2).await;
    assert_eq!(lock.renewed().len(), 1);
    // Nothing but the test has it.
    assert_eq!(Arc::strong_count(&lock), 1);
}

/// Even if the renewal was about to begin: a lost lease with a lock-delay sends no release to undo it.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_over_is_not_renewed() {
    let clock = Service::clock();
    let (renewed, dropped) = (Mutex::default(), AtomicUsize::new(0));
    let lock = ScriptedLock { clock: clock.clone(), takes: AT_ONCE, fails: false, renewed, dropped };
    let lock = Arc::new(lock);
    for loss in [Loss::Released, Loss::Superseded] {
        let holding = holding(&lock, clock.now() + TTL);
        holding.state.close(loss);
        assert!(matches!(holding.renew().await, Err(causes) if causes.is_empty()));
    }
    let holding = holding(&lock, clock.now() + TTL);
    sleep(TTL).await;
    assert!(holding.renew().await.is_err());
    assert!(lock.renewed().is_empty());
}

/// A lease that can't be renewed is tried again until its end, and not afterwards. It never is tried without a
/// pause, and so not in the last moment either, when a pause would be too long.
#[tokio::test(start_paused = true)]
async fn a_failing_renewal_is_tried_again_until_the_lease_is_over() {
    let (service, clock) = (Service::default(), Service::clock());
    let (lock, _watch) = service.lease(&clock, AT_ONCE, true);
    sleep(TTL * 3).await;
    let renewed = lock.renewed();
    assert!(renewed.len() > 8 && renewed.len() < 30, "{renewed:?}");
    assert!(renewed.iter().all(|at| *at < TTL), "{renewed:?}");
}

/// A renewal that never ends holds its lease no longer than until its deadline.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_never_ends_is_dropped_at_the_deadline() {
    let (service, clock) = (Service::default(), Service::clock());
    let (lock, _watch) = service.lease(&clock, TTL * 100, false);
    sleep(TTL - Duration::from_millis(1)).await;
    assert_eq!((lock.renewed().len(), lock.dropped.load(Ordering::SeqCst)), (1, 0));
    sleep(Duration::from_millis(2)).await;
    assert_eq!(lock.dropped.load(Ordering::SeqCst), 1);
}

/// Where a clock has panicked the task starts again, for all leases, and needs no next lease for that.
#[tokio::test(start_paused = true)]
async fn a_watchdog_starts_again_after_a_panic() {
    let (service, clock) = (Service::default(), Service::clock());
    let (first, _first) = service.lease(&clock, TTL / 6, false);
    // In the middle of a renewal.
    sleep(TTL / 3 + TTL / 12).await;
    clock.panics.store(true, Ordering::SeqCst);
    let (dropped, watch) = service.lease(&Service::clock(), AT_ONCE, false);
    drop((dropped, watch));
    sleep(TTL / 6).await;
    assert!(!clock.panics.load(Ordering::SeqCst), "nothing fell");
    sleep(TTL).await;
    assert!(first.renewed().len() > 3, "{:?}", first.renewed());
    let (second, _second) = service.lease(&clock, AT_ONCE, false);
    sleep(TTL).await;
    assert!(second.renewed().len() > 1, "{:?}", second.renewed());
}

#[tokio::test(start_paused = true)]
async fn a_task_without_leases_waits_for_the_next_one_and_renews_it() {
    let (service, clock) = (Service::default(), Service::clock());
    drop(service.lease(&clock, AT_ONCE, false));
    sleep(LINGER / 5).await;
    let (next, _next) = service.lease(&clock, AT_ONCE, false);
    sleep(TTL / 2).await;
    assert_eq!(next.renewed().len(), 1);
}

/// A log that panics.
struct Falls;

impl tracing::Subscriber for Falls {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        panic!("a log that panics");
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// Where the log panics at each warning, and a renewal in its middle, the others are renewed as ever.
#[tokio::test(start_paused = true)]
async fn a_log_that_panics_takes_no_lease() {
    let _log = tracing::subscriber::set_default(Falls);
    let (service, clock) = (Service::default(), Service::clock());
    let (failing, _failing) = service.lease(&clock, AT_ONCE, true);
    let (falling, _falling) = service.lease(&clock, AT_ONCE, false);
    falling.renewed.lock().resize(1000, TTL);
    let (slow, _slow) = service.lease(&clock, TTL / 6, false);
    sleep(TTL * 2).await;
    assert!(failing.renewed().len() > 8, "{:?}", failing.renewed());
    assert_eq!(slow.dropped.load(Ordering::SeqCst), 0);
    assert!(slow.renewed().len() > 3, "{:?}", slow.renewed());
}

/// Renewals that take long hold up the others for a moment only, however many of them there are.
#[tokio::test(start_paused = true)]
async fn slow_renewals_do_not_hold_up_those_that_find_no_room() {
    for slow in [MAX_RENEWALS - 1, MAX_RENEWALS, MAX_RENEWALS * 2] {
        let (service, clock) = (Service::default(), Service::clock());
        let slow: Vec<_> = (0..slow).map(|_| service.lease(&clock, TTL / 3, false)).collect();
        // A moment later, so that the slow ones come first.
        advance(Duration::from_millis(1)).await;
        let quick = Duration::from_millis(5);
        let quick: Vec<_> = (0..4000).map(|_| service.lease(&clock, quick, false)).collect();
        sleep(TTL / 2).await;
        assert!(slow.iter().all(|(lock, _)| !lock.renewed().is_empty()));
        for (lock, _watch) in &quick {
            assert!(lock.renewed()[0] < TTL * 2 / 5, "{:?}", lock.renewed());
        }
    }
}

/// A lease that ends before a third of its TTL is over is lost at its end, and not later.
#[tokio::test(start_paused = true)]
async fn the_first_look_comes_at_the_deadline_at_the_latest() {
    let (service, clock) = (Service::default(), Service::clock());
    let deadline = clock.now() + TTL / 10;
    let (renewed, dropped) = (Mutex::default(), AtomicUsize::new(0));
    let lock = Arc::new(ScriptedLock { clock, takes: AT_ONCE, fails: true, renewed, dropped });
    let holding = holding(&lock, deadline);
    let _watch = service.0.watch(&Handle::current(), Arc::clone(&holding), TTL);
    sleep(TTL / 5).await;
    // The watchdog has forgotten it.
    assert_eq!(Arc::strong_count(&holding), 1);
}
