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
    let send = async || write(app, 33).await;
    send().await;
    logged(send).await
}

/// Returns what is logged as an error meanwhile.
async fn logged<T>(act: impl AsyncFnOnce() -> T) -> (String, T) {
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(log.clone());
    tracing::callsite::rebuild_interest_cache();
    let done = act().await;
    let said = log.0.lock().unwrap().clone();
    (said, done)
}

#[tokio::test]
async fn a_fence_for_each_route_is_named() {
    let admit = async |fence: &Fence, name: &str| {
        drop(fence.admit(&Resource::new(name).unwrap(), token(33)).await.unwrap());
    };
    let of_a_route = || Fence::new(MemoryMarks::default());
    let (first, second) = (of_a_route(), of_a_route());
    // The first time makes the place in the code known.
    for fence in [&first, &second] {
        admit(fence, "said/1").await;
    }
    let (said, ()) = logged(async || {
        for fence in [&first, &first.clone(), &second] {
            admit(fence, "said/2").await;
        }
    })
    .await;
    assert_eq!(said.matches("said/2").count(), 1, "{said}");
    assert!(said.contains("two fences") && said.contains("clone it for each route"), "{said}");
    drop(second);
    let (said, ()) = logged(async || {
        for fence in [&first, &first.clone()] {
            admit(fence, "said/3").await;
        }
    })
    .await;
    assert_eq!(said, "");
}
