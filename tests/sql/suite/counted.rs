//! What operators see of admissions: the metric and the log.

use std::sync::Mutex;

use metrics_exporter_prometheus::PrometheusBuilder;

use super::*;

#[tokio::test]
async fn a_refusal_is_counted_and_logged() {
    let place = ready().await;
    // The place in the code is known to `tracing` before there is anybody to listen: while another
    // thread makes it known, a listener that comes is not seen.
    let first = named("first");
    admit(&place, &first, 2).await.unwrap();
    stale(admit(&place, &first, 1).await);
    let recorder = PrometheusBuilder::new().build_recorder();
    let counts = recorder.handle();
    let counted = |outcome: &str, times: u32| {
        let key =
            format!("fencing_admissions_total{{layer=\"sql\",outcome=\"{outcome}\"}} {times}\n");
        assert!(counts.render().contains(&key), "{key}{}", counts.render());
    };
    let log = tempfile::NamedTempFile::new().unwrap();
    let file = Mutex::new(log.reopen().unwrap());
    let info = tracing_subscriber::fmt().with_ansi(false).with_writer(file);
    let _counting = metrics::set_default_local_recorder(&recorder);
    let _logging = tracing::subscriber::set_default(info.finish());
    tracing::callsite::rebuild_interest_cache();
    for number in [34, 34] {
        admit(&place, &resource(), number).await.unwrap();
    }
    begin(&place.pool, 34).await.unwrap().rollback().await.unwrap();
    counted("admitted", 3);
    stale(admit(&place, &resource(), 33).await);
    stale(begin(&place.pool, 32).await);
    counted("admitted", 3);
    counted("stale", 2);
    let log = std::fs::read_to_string(log.path()).unwrap();
    let lines = log.lines().filter(|line| line.contains(" fencing")).collect::<Vec<_>>();
    assert_eq!(lines.len(), 2, "only refusals are logged: {lines:?}");
    for (line, number) in lines.into_iter().zip([33, 32]) {
        assert!(line.contains(" INFO ") && line.contains("transaction not admitted"), "{line}");
        let words = format!("token {number} ");
        assert!(line.contains(&words) && line.contains("files/a"), "{line}");
    }
}
