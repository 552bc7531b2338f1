use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use tokio::time::sleep;

/// The bounds of the buckets, in seconds.
const BOUNDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0];
/// How often records are put into buckets. Until then each of them takes memory.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The metrics of this process.
pub(crate) type Recorder = PrometheusHandle;

/// Records the metrics of this process from now on.
pub(crate) fn record_metrics() -> Result<Recorder, BuildError> {
    let recorder = PrometheusBuilder::new().set_buckets(&BOUNDS)?.install_recorder()?;
    let kept = recorder.clone();
    tokio::spawn(async move {
        loop {
            sleep(UPKEEP_INTERVAL).await;
            kept.run_upkeep();
        }
    });
    Ok(recorder)
}
