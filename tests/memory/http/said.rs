//! What the log says to those who put the server together.

use std::fmt::{Debug, Write};
use std::sync::Mutex;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::*;

/// The errors of this crate.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("fencing") && *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Line(&mut self.0.lock().unwrap()));
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Sends a request twice, and returns what is logged as an error for the second: the first makes the place in
/// the code known.
pub async fn said(app: &Router) -> (String, Response<Body>) {
    let send = async || app.clone().oneshot(request("PUT", &["33"])).await.unwrap();
    send().await;
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(log.clone());
    tracing::callsite::rebuild_interest_cache();
    let response = send().await;
    let said = log.0.lock().unwrap().clone();
    (said, response)
}
