//! What operators see: how many are in flight, and how long they waited.

use super::*;
use crate::visible::Seen;

impl Seen {
    fn in_flight(&self) -> f64 {
        self.gauge("fencing_in_flight")
    }

    fn waited(&self) -> Vec<f64> {
        self.times("fencing_admission_seconds")
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
    assert_eq!(write(&app, 33).await.status(), 412);
    assert_eq!((seen.in_flight(), seen.waited().len()), (0.0, 3), "a refusal is timed as well");
    assert!(seen.waited()[1] >= 0.02, "{:?}", seen.waited());
}
