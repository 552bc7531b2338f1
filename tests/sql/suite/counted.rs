//! What operators see of admissions: the metric and the log.

use std::sync::Mutex;

use metrics_exporter_prometheus::PrometheusBuilder;

use super::*;

#[tokio::test]
async fn a_refusal_is_counted_and_logged() {
    let place = ready().await;
    let log = tempfile::NamedTempFile::new().unwrap();
    let lines = |of: &str| {
        let log = std::fs::read_to_string(log.path()).unwrap();
        let lines = log.lines().filter(|line| line.contains(" fencing") && line.contains(of));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let file = Mutex::new(log.reopen().unwrap());
    let info = tracing_subscriber::fmt().with_ansi(false).with_writer(file);
    let _logging = tracing::subscriber::set_default(info.finish());
    // While another thread makes a place in the code known to `tracing`, a listener that comes is not seen.
    let first = named("first");
    admit(&place, &first, 2).await.unwrap();
    until("the listener is seen", async || {
        tracing::callsite::rebuild_interest_cache();
        stale(admit(&place, &first, 1).await);
        !lines("first").is_empty()
    })
    .await;
    let recorder = PrometheusBuilder::new().build_recorder();
    let counts = recorder.handle();
    let counted = |outcome: &str, times: u32| {
        let key =
            format!("fencing_admissions_total{{layer=\"sql\",outcome=\"{outcome}\"}} {times}\n");
        assert!(counts.render().contains(&key), "{key}{}", counts.render());
    };
    let _counting = metrics::set_default_local_recorder(&recorder);
    for number in [34, 34] {
        admit(&place, &resource(), number).await.unwrap();
    }
    begin(&place.pool, 34).await.unwrap().rollback().await.unwrap();
    counted("admitted", 3);
    stale(admit(&place, &resource(), 33).await);
    stale(begin(&place.pool, 32).await);
    counted("admitted", 3);
    counted("stale", 2);
    let lines = lines("files/a");
    assert_eq!(lines.len(), 2, "only refusals are logged: {lines:?}");
    for (line, number) in lines.into_iter().zip([33, 32]) {
        assert!(line.contains(" INFO ") && line.contains("transaction not admitted"), "{line}");
        let words = format!("token {number} ");
        assert!(line.contains(&words), "{line}");
    }
}
