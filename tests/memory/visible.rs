//! What operators see of leases: how many are held and waited for, and for how long.

use std::time::Duration;

use fencing::lock::AcquireError;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};

use crate::driver::fleet::{Fleet, begun, named};

/// A recorder of metrics for this thread, as an exporter has it.
pub fn recorder() -> PrometheusRecorder {
    PrometheusBuilder::new().build_recorder()
}

/// The value that stands behind this name and its labels, or zero.
pub fn seen(recorder: &PrometheusRecorder, name: &str) -> f64 {
    let text = recorder.handle().render();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0.0, |value| value.parse().unwrap())
}

fn now(recorder: &PrometheusRecorder) -> (f64, f64) {
    (seen(recorder, "fencing_leases"), seen(recorder, "fencing_waiting"))
}

/// How many waited, by what became of it.
fn waited(recorder: &PrometheusRecorder, outcome: &str) -> f64 {
    seen(recorder, &format!("fencing_wait_seconds_count{{outcome=\"{outcome}\"}}"))
}

#[tokio::test(start_paused = true)]
async fn leases_are_counted_until_they_are_released_or_dropped() {
    let (_fleet, lock) = Fleet::with_client(3).await;
    let (seen_by, names) = (recorder(), ["a", "b", "c"].map(named));
    let _recorder = metrics::set_default_local_recorder(&seen_by);
    let alone = lock.acquire(&names[0]).await.unwrap();
    assert_eq!(now(&seen_by), (1.0, 0.0));
    let shared = lock.acquire_shared(&names[1]).await.unwrap();
    // Several at once are one lease.
    let several = lock.acquire_all(&names[2..]).await.unwrap();
    let tried = lock.try_acquire(&named("d")).await.unwrap();
    assert_eq!(now(&seen_by), (4.0, 0.0));
    assert_eq!(waited(&seen_by, "acquired"), 3.0, "to try is not to wait");
    assert_eq!(seen(&seen_by, "fencing_hold_seconds_count"), 0.0);
    alone.release().await.unwrap();
    shared.release().await.unwrap();
    drop((several, tried));
    assert_eq!(now(&seen_by), (0.0, 0.0));
    assert_eq!(seen(&seen_by, "fencing_hold_seconds_count"), 4.0);
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_counted_until_they_get_it_or_give_up() {
    let (_fleet, lock) = Fleet::with_client(3).await;
    let (seen_by, name) = (recorder(), named("a"));
    let _recorder = metrics::set_default_local_recorder(&seen_by);
    let lease = lock.acquire(&name).await.unwrap();
    let hasty = lock.with_wait(Duration::from_millis(60)).unwrap();
    let refused = hasty.acquire(&name).await.unwrap_err();
    assert!(matches!(refused, AcquireError::Held { .. }), "{refused}");
    assert_eq!((now(&seen_by), waited(&seen_by, "held")), ((1.0, 0.0), 1.0));
    let waiting = tokio::time::timeout(Duration::from_millis(10), lock.acquire(&name));
    assert!(waiting.await.is_err());
    assert_eq!((now(&seen_by), waited(&seen_by, "cancelled")), ((1.0, 0.0), 1.0));
    let waiting = begun(lock.acquire(&name));
    assert_eq!(now(&seen_by), (1.0, 1.0));
    drop(lease);
    let lease = waiting.await.unwrap();
    assert_eq!((now(&seen_by), waited(&seen_by, "acquired")), ((1.0, 0.0), 2.0));
    drop(lease);
}
