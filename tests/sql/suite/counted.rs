//! What operators see of admissions: the metric and the log.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};

use super::*;

/// Counts by name and labels.
#[derive(Default)]
struct Counts(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Counts {
    fn of(&self, outcome: &str) -> u64 {
        let key = format!("fencing_admissions_total layer=sql outcome={outcome}");
        self.0.lock().unwrap().get(&key).map_or(0, |count| count.load(Ordering::SeqCst))
    }
}

impl metrics::Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut name = key.name().to_owned();
        for label in key.labels() {
            write!(name, " {}={}", label.key(), label.value()).unwrap();
        }
        Counter::from_arc(Arc::clone(self.0.lock().unwrap().entry(name).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// The lines of this crate at INFO.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("fencing") && *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!("{} ", event.metadata().level()));
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_refusal_is_counted_and_logged() {
    let place = ready().await;
    // The place in the code is known to `tracing` before there is anybody to listen: while another
    // thread makes it known, a listener that comes is not seen.
    let first = Resource::new("first").unwrap();
    admit(&place, &first, 2).await.unwrap();
    stale(admit(&place, &first, 1).await);
    let (counts, log) = (Counts::default(), Log::default());
    let _counting = metrics::set_default_local_recorder(&counts);
    let _logging = tracing::subscriber::set_default(log.clone());
    tracing::callsite::rebuild_interest_cache();
    for number in [34, 34] {
        admit(&place, &resource(), number).await.unwrap();
    }
    let tx = sql::begin(&place.pool, &resource(), token(34)).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!((counts.of("admitted"), counts.of("stale")), (3, 0));
    assert!(log.0.lock().unwrap().is_empty());
    stale(admit(&place, &resource(), 33).await);
    stale(sql::begin(&place.pool, &resource(), token(32)).await);
    assert_eq!((counts.of("admitted"), counts.of("stale")), (3, 2));
    let lines = log.0.lock().unwrap().clone();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, number) in lines.iter().zip([33, 32]) {
        assert!(line.starts_with("INFO ") && line.contains("transaction not admitted"), "{line}");
        let words = format!("token {number} ");
        assert!(line.contains(&words) && line.contains("files/a"), "{line}");
    }
}
