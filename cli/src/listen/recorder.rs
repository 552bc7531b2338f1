use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata,
    SetRecorderError, SharedString, Unit,
};

/// The bounds of the buckets, in seconds.
const BOUNDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0];

/// Keeps the metrics of this process, and writes them as Prometheus reads them.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Arc<RwLock<HashMap<Key, Metric>>>);

#[derive(Clone)]
enum Metric {
    Counter(Arc<Count>),
    Gauge(Arc<Level>),
    Histogram(Arc<Buckets>),
}

#[derive(Default)]
struct Count(AtomicU64);

/// A number of floating point, by its bits.
#[derive(Default)]
struct Level(AtomicU64);

#[derive(Default)]
struct Buckets {
    counts: [Count; BOUNDS.len()],
    all: Count,
    sum: Level,
}

impl Recorder {
    /// Makes the recorder of this process.
    pub(crate) fn install() -> Result<Recorder, SetRecorderError<Recorder>> {
        let recorder = Recorder::default();
        metrics::set_global_recorder(recorder.clone())?;
        Ok(recorder)
    }

    fn find(&self, key: &Key, make: impl FnOnce() -> Metric) -> Metric {
        let found = self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        found.unwrap_or_else(|| {
            let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
            all.entry(key.clone()).or_insert_with(make).clone()
        })
    }

    /// Writes all metrics in the text format of Prometheus.
    pub(crate) fn text(&self) -> String {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut families: BTreeMap<&str, BTreeMap<String, &Metric>> = BTreeMap::new();
        for (key, metric) in all.iter() {
            let labels = key.labels().map(|label| {
                let value = label.value().replace('\\', "\\\\").replace('"', "\\\"");
                format!("{}=\"{}\"", label.key(), value.replace('\n', "\\n"))
            });
            let labels = labels.collect::<Vec<_>>().join(",");
            families.entry(key.name()).or_default().insert(labels, metric);
        }
        let mut text = String::new();
        for (name, metrics) in families {
            let kind = metrics.values().next().map_or("untyped", |metric| metric.kind());
            let _ = writeln!(text, "# TYPE {name} {kind}");
            for (labels, metric) in metrics {
                metric.write(&mut text, name, &labels);
            }
        }
        text
    }
}

impl Metric {
    fn kind(&self) -> &'static str {
        match self {
            Metric::Counter(_) => "counter",
            Metric::Gauge(_) => "gauge",
            Metric::Histogram(_) => "histogram",
        }
    }

    fn write(&self, text: &mut String, name: &str, labels: &str) {
        let braced = |more: &str| match (labels, more) {
            ("", "") => String::new(),
            ("", one) | (one, "") => format!("{{{one}}}"),
            (labels, more) => format!("{{{labels},{more}}}"),
        };
        let here = braced("");
        let _ = match self {
            Metric::Counter(count) => writeln!(text, "{name}{here} {}", count.get()),
            Metric::Gauge(level) => writeln!(text, "{name}{here} {}", level.get()),
            Metric::Histogram(buckets) => {
                let mut below = 0;
                for (bound, count) in BOUNDS.iter().zip(&buckets.counts) {
                    below += count.get();
                    let le = braced(&format!("le=\"{bound}\""));
                    let _ = writeln!(text, "{name}_bucket{le} {below}");
                }
                let (all, sum) = (buckets.all.get(), buckets.sum.get());
                let le = braced("le=\"+Inf\"");
                let _ = writeln!(text, "{name}_bucket{le} {all}\n{name}_sum{here} {sum}");
                writeln!(text, "{name}_count{here} {all}")
            }
        };
    }
}

impl Count {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Level {
    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }

    fn absolute(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}

impl GaugeFn for Level {
    fn increment(&self, value: f64) {
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    fn decrement(&self, value: f64) {
        GaugeFn::increment(self, -value);
    }

    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        let bucket = BOUNDS.iter().zip(&self.counts).find(|(bound, _)| value <= **bound);
        if let Some((_, count)) = bucket {
            count.increment(1);
        }
        self.all.increment(1);
        GaugeFn::increment(&self.sum, value);
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match self.find(key, || Metric::Counter(Arc::default())) {
            Metric::Counter(count) => Counter::from_arc(count),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        match self.find(key, || Metric::Gauge(Arc::default())) {
            Metric::Gauge(level) => Gauge::from_arc(level),
            _ => Gauge::noop(),
        }
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match self.find(key, || Metric::Histogram(Arc::default())) {
            Metric::Histogram(buckets) => Histogram::from_arc(buckets),
            _ => Histogram::noop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_written_as_prometheus_reads_them() {
        let recorder = Recorder::default();
        metrics::with_local_recorder(&recorder, || {
            metrics::counter!("a_total", "door" => "x\"y").increment(2);
            metrics::gauge!("b").set(1.5);
            metrics::histogram!("c_seconds").record(0.004);
            metrics::histogram!("c_seconds").record(100.0);
        });
        let text = recorder.text();
        for line in [
            "# TYPE a_total counter\na_total{door=\"x\\\"y\"} 2\n",
            "# TYPE b gauge\nb 1.5\n",
            "c_seconds_bucket{le=\"0.0025\"} 0\nc_seconds_bucket{le=\"0.005\"} 1\n",
            "c_seconds_bucket{le=\"+Inf\"} 2\nc_seconds_sum 100.004\nc_seconds_count 2\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
