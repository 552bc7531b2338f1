//! What operators see and do: marks over HTTP; how many requests are in flight, and how long they waited; the log.

use std::io::Seek;
use std::sync::Mutex;

use metrics_exporter_prometheus::PrometheusRecorder;
use tracing_subscriber::filter::LevelFilter;

use super::*;
use crate::visible::{recorder, seen};

#[allow(dead_code, reason = "its `main`")]
#[path = "../../../examples/marks_admin.rs"]
mod marks_admin;

async fn sent(app: &Router, method: &str, uri: &str, number: Option<&str>) -> (u16, String) {
    let response = send(app, method, uri, number).await;
    (response.status().as_u16(), text(response).await)
}

#[tokio::test]
async fn marks_are_listed_shown_and_raised_and_never_lowered() {
    let fence = fence().ceiling(token(1000));
    let app: Router = Router::new().nest("/admin", marks_admin::admin(fence.clone()));
    for (name, number) in [("files/b", 7), ("files/a", 34), ("ä b", 5)] {
        drop(fence.admit(&named(name), token(number)).await.unwrap());
    }
    let listed = r#"[{"resource":"files/a","token":34},{"resource":"files/b","token":7},{"resource":"ä b","token":5}]"#;
    assert_eq!(sent(&app, "GET", "/admin/marks", None).await, (200, listed.into()));
    let (_, page) = sent(&app, "GET", "/admin/marks?limit=1&after=files%2Fa", None).await;
    assert_eq!(page, r#"[{"resource":"files/b","token":7}]"#);
    let (_, page) = sent(&app, "GET", "/admin/marks?after=%C3%A4+b", None).await;
    assert_eq!(page, "[]");
    for limit in ["65536", "x", "-1"] {
        assert_eq!(sent(&app, "GET", &format!("/admin/marks?limit={limit}"), None).await.0, 400);
    }

    let shown = sent(&app, "GET", "/admin/marks/files%2Fa", None).await;
    assert_eq!(shown, (200, r#"{"resource":"files/a","token":34}"#.into()));
    assert_eq!(sent(&app, "GET", "/admin/marks/%C3%A4%20b", None).await.0, 200);
    assert_eq!(sent(&app, "GET", "/admin/marks/nothing", None).await.0, 404);
    assert_eq!(sent(&app, "GET", "/admin/marks/%FF", None).await.0, 400);

    // Raised, and from then on refused.
    assert_eq!(sent(&app, "PUT", "/admin/marks/files/a", Some("40")).await.0, 200);
    assert!(fence.admit(&file(), token(39)).await.is_err());
    for (number, status) in [(Some("39"), 412), (Some("1001"), 400), (Some("x"), 400), (None, 428)] {
        assert_eq!(sent(&app, "PUT", "/admin/marks/files/a", number).await.0, status);
    }
    let shown = sent(&app, "GET", "/admin/marks/files/a", None).await;
    assert_eq!(shown, (200, r#"{"resource":"files/a","token":40}"#.into()));
    for method in ["POST", "DELETE", "PATCH"] {
        assert_eq!(sent(&app, method, "/admin/marks/files/a", Some("1")).await.0, 405);
    }
    assert_eq!(sent(&app, "GET", "/admin/else", None).await.0, 404);
    assert_eq!(sent(&app, "GET", "/admin/marksman", None).await.0, 404);
    // Marks that do not list themselves say so.
    let app = marks_admin::admin(Fence::new(marks_behind(|| ready(()))));
    assert_eq!(sent(&app, "GET", "/marks", None).await.0, 503);
    assert_eq!(sent(&app, "GET", "/marks/a", None).await.0, 404);
}

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

/// Sends a request several times; returns what the last logs as an error: the first registers the callsite.
pub async fn said(app: &Router) -> (String, Response<Body>) {
    let send = async || write(app, 33).await;
    send().await;
    let mut heard = logged(send).await;
    // Another test may have hidden this listener meanwhile.
    for _ in 0..9 {
        if !heard.0.is_empty() {
            break;
        }
        heard = logged(send).await;
    }
    heard
}

async fn logged<T>(act: impl AsyncFnOnce() -> T) -> (String, T) {
    let mut log = tempfile::tempfile().unwrap();
    let lines = tracing_subscriber::fmt().with_ansi(false).with_max_level(LevelFilter::ERROR);
    let lines = lines.with_writer(Mutex::new(log.try_clone().unwrap()));
    let _logging = tracing::subscriber::set_default(lines.finish());
    tracing::callsite::rebuild_interest_cache();
    let done = act().await;
    log.rewind().unwrap();
    (std::io::read_to_string(log).unwrap(), done)
}

#[tokio::test]
async fn a_fence_for_each_route_is_named() {
    let admit = async |fences: &[&Fence], name: &str| {
        for fence in fences {
            drop(fence.admit(&named(name), token(33)).await.unwrap());
        }
    };
    let (first, second) = (fence(), fence());
    // The first time makes the place in the code known.
    admit(&[&first, &second], "said/1").await;
    let (said, ()) = logged(async || admit(&[&first, &first.clone(), &second], "said/2").await).await;
    assert_eq!(said.matches("said/2").count(), 1, "{said}");
    assert!(said.contains("two fences") && said.contains("clone it for each route"), "{said}");
    drop(second);
    let (said, ()) = logged(async || admit(&[&first, &first.clone()], "said/3").await).await;
    assert_eq!(said, "");
}
