use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Resource};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::task::AbortOnDropHandle;

use super::EngineSession;
use crate::lock::wait::release_notifications::{Notice, OpeningListener, ReleaseListener};

type Noticed = Result<Notice, Fault>;

/// Where the keeper of a place reports to.
pub struct PlaceReports {
    resource: Resource,
    registration: u64,
    notices: UnboundedSender<Noticed>,
}

impl PlaceReports {
    /// The place is taken. The lock may be free already.
    pub(crate) fn registered(&self, free: bool) {
        let notice = Notice::Registered { resource: self.resource.clone(), registration: self.registration, free };
        let _ = self.notices.send(Ok(notice));
    }

    /// The place is the first, and the lock is free.
    pub(crate) fn released(&self) {
        let notice = Notice::Released { resource: self.resource.clone(), registration: self.registration };
        let _ = self.notices.send(Ok(notice));
    }
}

/// The places of this client in the lines of waiting clients, a task for each. Dropped, it leaves them all.
pub(super) struct LineListener<L> {
    line: Arc<L>,
    places: HashMap<Resource, (u64, AbortOnDropHandle<()>)>,
    notices: (UnboundedSender<Noticed>, UnboundedReceiver<Noticed>),
}

impl<L: EngineSession> LineListener<L> {
    /// Opens the lines of a server, once it is connected.
    pub(super) fn open(connecting: impl Future<Output = Result<Arc<L>, Fault>> + Send + 'static) -> OpeningListener {
        Box::pin(async {
            let (line, places) = (connecting.await?, HashMap::new());
            let listener = LineListener { line, places, notices: unbounded_channel() };
            Ok(Box::new(listener) as Box<dyn ReleaseListener>)
        })
    }
}

impl<L: EngineSession> ReleaseListener for LineListener<L> {
    fn wait(&mut self, resource: &Resource, registration: u64, _: Duration) {
        let notices = self.notices.0.clone();
        let reports = PlaceReports { resource: resource.clone(), registration, notices: notices.clone() };
        if self.places.get(resource).is_some_and(|(known, _)| *known == registration) {
            return reports.registered(false);
        }
        let keeper = AssertUnwindSafe(Arc::clone(&self.line).keep_place(resource.clone(), reports)).catch_unwind();
        let keeper = async move {
            let lost = |_| Err(Fault::Disconnected("a place was lost".into()));
            let Err(fault) = keeper.await.unwrap_or_else(lost);
            let _ = notices.send(Err(fault));
        };
        self.places.insert(resource.clone(), (registration, AbortOnDropHandle::new(tokio::spawn(keeper))));
    }

    fn leave(&mut self, resource: &Resource, registration: u64) {
        if self.places.get(resource).is_some_and(|(known, _)| *known == registration) {
            self.places.remove(resource);
        }
        let _ = self.notices.0.send(Ok(Notice::Left));
    }

    fn next(&mut self) -> BoxFuture<'_, Noticed> {
        // `self` has a sender: the channel never ends.
        Box::pin(async { self.notices.1.recv().await.unwrap_or(Err(Fault::TimedOut)) })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    struct Panics;

    impl EngineSession for Panics {
        fn has_ended(&self) -> bool {
            false
        }

        async fn keep_place(self: Arc<Self>, resource: Resource, _: PlaceReports) -> Result<Infallible, Fault> {
            panic!("{resource}")
        }
    }

    #[tokio::test]
    async fn a_place_whose_task_panics_fails_the_listener() {
        let mut listener = LineListener::open(async { Ok(Arc::new(Panics)) }).await.unwrap();
        listener.wait(&Resource::new("a").unwrap(), 1, Duration::ZERO);
        assert!(listener.next().await.is_err());
    }
}
