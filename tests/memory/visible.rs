//! What operators see of leases: how many are held and waited for, and for how long.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencing::lock::AcquireError;
use fencing::lock::redlock::MemoryNode;
use fencing::{Redlock, Resource};
use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, SharedString, Unit};

#[derive(Default)]
struct Times(Mutex<Vec<f64>>);

impl HistogramFn for Times {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

/// A recorder of gauges and histograms, by their names with their labels.
#[derive(Default)]
pub struct Seen {
    gauges: Mutex<HashMap<String, Arc<AtomicU64>>>,
    times: Mutex<HashMap<String, Arc<Times>>>,
}

/// The name with its labels.
fn whole(key: &Key) -> String {
    key.labels().fold(key.name().to_owned(), |name, label| format!("{name} {}", label.value()))
}

impl metrics::Recorder for Seen {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::clone(self.gauges.lock().unwrap().entry(whole(key)).or_default()))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::clone(self.times.lock().unwrap().entry(whole(key)).or_default()))
    }
}

impl Seen {
    pub fn gauge(&self, name: &str) -> f64 {
        let gauges = self.gauges.lock().unwrap();
        gauges.get(name).map_or(0.0, |bits| f64::from_bits(bits.load(Ordering::SeqCst)))
    }

    pub fn times(&self, name: &str) -> Vec<f64> {
        let times = self.times.lock().unwrap();
        times.get(name).map_or_else(Vec::new, |times| times.0.lock().unwrap().clone())
    }

    /// Leases that are held, and calls that wait.
    fn now(&self) -> (f64, f64) {
        (self.gauge("fencing_leases"), self.gauge("fencing_waiting"))
    }

    fn count(&self, name: &str) -> usize {
        self.times(name).len()
    }
}

fn lock() -> Redlock {
    let nodes = ["a", "b", "c"].map(MemoryNode::new);
    Redlock::builder().nodes(nodes).build().unwrap()
}

#[tokio::test]
async fn leases_are_counted_until_they_are_released_or_dropped() {
    let seen = Seen::default();
    let _recorder = metrics::set_default_local_recorder(&seen);
    let (lock, names) = (lock(), ["a", "b", "c"].map(|name| Resource::new(name).unwrap()));
    let alone = lock.acquire(&names[0]).await.unwrap();
    assert_eq!(seen.now(), (1.0, 0.0));
    let shared = lock.acquire_shared(&names[1]).await.unwrap();
    // Several at once are one lease.
    let several = lock.acquire_all(&names[2..]).await.unwrap();
    let tried = lock.try_acquire(&Resource::new("d").unwrap()).await.unwrap();
    assert_eq!(seen.now(), (4.0, 0.0));
    assert_eq!(seen.count("fencing_wait_seconds acquired"), 3, "to try is not to wait");
    assert_eq!(seen.count("fencing_hold_seconds"), 0);
    alone.release().await.unwrap();
    shared.release().await.unwrap();
    drop((several, tried));
    assert_eq!(seen.now(), (0.0, 0.0));
    assert_eq!(seen.count("fencing_hold_seconds"), 4);
}

#[tokio::test]
async fn those_who_wait_are_counted_until_they_get_it_or_give_up() {
    let seen = Seen::default();
    let _recorder = metrics::set_default_local_recorder(&seen);
    let (lock, name) = (lock(), Resource::new("a").unwrap());
    let lease = lock.acquire(&name).await.unwrap();
    let hasty = lock.with_wait(Duration::from_millis(60)).unwrap();
    let refused = hasty.acquire(&name).await.unwrap_err();
    assert!(matches!(refused, AcquireError::Held { .. }), "{refused}");
    assert_eq!((seen.now(), seen.count("fencing_wait_seconds held")), ((1.0, 0.0), 1));
    let waiting = tokio::time::timeout(Duration::from_millis(10), lock.acquire(&name));
    assert!(waiting.await.is_err());
    assert_eq!((seen.now(), seen.count("fencing_wait_seconds cancelled")), ((1.0, 0.0), 1));
    let mut waiting = Box::pin(lock.acquire(&name));
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("it is held"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(seen.now(), (1.0, 1.0));
    drop(lease);
    let lease = waiting.await.unwrap();
    assert_eq!((seen.now(), seen.count("fencing_wait_seconds acquired")), ((1.0, 0.0), 2));
    drop(lease);
}
