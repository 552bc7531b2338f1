//! What operators see: how many are in flight, and how long they waited.

use super::*;
use crate::visible::{recorder, seen};
use metrics_exporter_prometheus::PrometheusRecorder;

/// How many are in flight, and how many have waited and for how long in all.
fn figures(recorder: &PrometheusRecorder) -> (f64, f64, f64) {
    let waited = |what| seen(recorder, &format!("fencing_admission_seconds_{what}"));
    (seen(recorder, "fencing_in_flight"), waited("count"), waited("sum"))
}

#[tokio::test]
async fn those_in_flight_are_counted_until_they_have_ended_and_the_wait_is_timed() {
    let recorder = recorder();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let (app, go) = slow(layer(fence()));
    let older = tokio::spawn(app.clone().oneshot(request("PUT", &["33"])));
    while figures(&recorder).0 < 1.0 {
        tokio::task::yield_now().await;
    }
    let newer = tokio::spawn(app.clone().oneshot(request("PUT", &["34"])));
    tokio::time::sleep(Duration::from_millis(30)).await;
    // One that waits is not in flight.
    let (in_flight, waited, before) = figures(&recorder);
    assert_eq!((in_flight, waited), (1.0, 1.0));
    go.notify_one();
    let response = older.await.unwrap().unwrap();
    // Its body is still there.
    assert_eq!(figures(&recorder).0, 1.0);
    text(response).await;
    text(newer.await.unwrap().unwrap()).await;
    assert_eq!(figures(&recorder).0, 0.0);
    assert_eq!(write(&app, 33).await.status(), 412);
    let (in_flight, waited, sum) = figures(&recorder);
    assert_eq!((in_flight, waited), (0.0, 3.0), "a refusal is timed as well");
    assert!(sum - before >= 0.02, "{before} {sum}");
}
