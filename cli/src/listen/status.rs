use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use http::StatusCode;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use scopeguard::{ScopeGuard, guard};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{HttpAnswer, response};
use crate::exit::Failure;

/// The bounds of the buckets, in seconds.
const BOUNDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0];
/// How often records are put into buckets. Until then each of them takes memory.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
/// For how long the last answer counts.
const FRESH: Duration = Duration::from_secs(1);
const READY_TIMEOUT: Duration = Duration::from_secs(3);
const TEXT: &str = "text/plain; charset=utf-8";

pub(crate) fn record_metrics() -> Result<PrometheusHandle, Failure> {
    let builder = PrometheusBuilder::new().set_buckets(&BOUNDS).map_err(Failure::failed)?;
    let recorder = builder.install_recorder().map_err(Failure::failed)?;
    let kept = recorder.clone();
    tokio::spawn(async move {
        loop {
            sleep(UPKEEP_INTERVAL).await;
            kept.run_upkeep();
        }
    });
    Ok(recorder)
}

/// The pages for operators: whether the process is ready, and its metrics. However often they are asked for, the check
/// is made once a second at most. With `asks`, how long it may take, it is also made for the metrics, which it sets.
pub(crate) fn status<R: Future<Output = Result<(), String>> + Send + 'static>(
    recorder: PrometheusHandle,
    ready: impl FnOnce() -> R + Clone + Send + Sync + 'static,
    asks: Option<Duration>,
    stop: CancellationToken,
) -> Router {
    let limit = asks.unwrap_or_default().max(READY_TIMEOUT);
    let last = Arc::new(Mutex::new(None::<(Instant, Result<(), String>)>));
    let readiness = async move || {
        if stop.is_cancelled() {
            return Err("stopping".to_owned());
        }
        let mut last = last.lock().await;
        if let Some((_, answer)) = last.as_ref().filter(|(when, _)| when.elapsed() < FRESH) {
            return answer.clone();
        }
        let late = |_| Err(format!("no answer within {limit:?}"));
        let answer = timeout(limit, ready.clone()()).await.unwrap_or_else(late);
        last.insert((Instant::now(), answer)).1.clone()
    };
    let asked = readiness.clone();
    let metrics = async move || {
        if asks.is_some() {
            let _ = asked().await;
        }
        response(StatusCode::OK, TEXT, recorder.render())
    };
    let readyz = async move || match readiness().await {
        Ok(()) => response(StatusCode::OK, TEXT, "ready\n"),
        Err(why) => response(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
    };
    Router::new()
        .route("/livez", get(async || response(StatusCode::OK, TEXT, "live\n")))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .fallback(async || response(StatusCode::NOT_FOUND, TEXT, "no such page\n"))
}

pub(crate) fn yaml(text: &'static str) -> HttpAnswer {
    response(StatusCode::OK, "application/yaml", text)
}

/// A value that a gauge counts until it is dropped.
pub(crate) type Gauged<T> = ScopeGuard<(T, &'static str), fn((T, &'static str))>;

pub(crate) fn gauged<T>(gauge: &'static str, value: T) -> Gauged<T> {
    metrics::gauge!(gauge).increment(1.0);
    guard((value, gauge), |(_, gauge)| metrics::gauge!(gauge).decrement(1.0))
}
