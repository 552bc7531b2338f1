//! What operators see: how many are in flight, and how long they waited.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, SharedString, Unit};

use super::*;

#[derive(Default)]
struct Times(Mutex<Vec<f64>>);

impl HistogramFn for Times {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

#[derive(Default)]
struct Seen {
    in_flight: Arc<AtomicU64>,
    waited: Arc<Times>,
}

impl metrics::Recorder for Seen {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        assert_eq!(key.name(), "fencing_in_flight");
        assert_eq!(key.labels().count(), 0);
        Gauge::from_arc(Arc::clone(&self.in_flight))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        assert_eq!(key.name(), "fencing_admission_seconds");
        assert_eq!(key.labels().count(), 0);
        Histogram::from_arc(Arc::clone(&self.waited))
    }
}

impl Seen {
    fn in_flight(&self) -> f64 {
        f64::from_bits(self.in_flight.load(Ordering::SeqCst))
    }

    fn waited(&self) -> Vec<f64> {
        self.waited.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn those_in_flight_are_counted_until_they_have_ended_and_the_wait_is_timed() {
    let seen = Seen::default();
    let _recorder = metrics::set_default_local_recorder(&seen);
    let (app, go, _) = slow(fence());
    let older = tokio::spawn(app.clone().oneshot(request("PUT", &["33"])));
    while seen.in_flight() < 1.0 {
        tokio::task::yield_now().await;
    }
    let newer = tokio::spawn(app.clone().oneshot(request("PUT", &["34"])));
    tokio::time::sleep(Duration::from_millis(30)).await;
    // One that waits is not in flight.
    assert_eq!((seen.in_flight(), seen.waited().len()), (1.0, 1));
    go.notify_one();
    let response = older.await.unwrap().unwrap();
    // Its body is still there.
    assert_eq!(seen.in_flight(), 1.0);
    text(response).await;
    text(newer.await.unwrap().unwrap()).await;
    assert_eq!(seen.in_flight(), 0.0);
    let response = app.oneshot(request("PUT", &["33"])).await.unwrap();
    assert_eq!(response.status(), 412);
    assert_eq!((seen.in_flight(), seen.waited().len()), (0.0, 3), "a refusal is timed as well");
    assert!(seen.waited()[1] >= 0.02, "{:?}", seen.waited());
}
