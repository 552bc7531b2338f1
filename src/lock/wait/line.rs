use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::{Fault, Resource};
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};

use super::listener::{Notice, ReleaseListener};
use super::release_notifications::OpeningListener;

/// A server that keeps a line of waiting clients for each resource. Each client watches the one ahead of it, so that a
/// release wakes only the first ("herd effect", ZooKeeper recipes).
pub(crate) trait WaitingLine: Send + Sync + 'static {
    /// Takes the last place in the line and keeps it until the future is dropped. It reports whenever the place is the
    /// first and the lock is free, and ends only with a fault.
    fn keep_place(
        self: Arc<Self>,
        resource: Resource,
        reports: PlaceReports,
    ) -> BoxFuture<'static, Result<Infallible, Fault>>;
}

/// Where the keeper of a place reports to.
pub(crate) struct PlaceReports {
    resource: Resource,
    ticket: u64,
    notices: UnboundedSender<Notice>,
}

impl PlaceReports {
    /// The place is taken. The lock may be free already.
    pub(crate) fn registered(&self, free: bool) {
        let _ = self.notices.send(Notice::Registered(self.resource.clone(), self.ticket, free));
    }

    /// The place is the first, and the lock is free.
    pub(crate) fn released(&self) {
        let _ = self.notices.send(Notice::Released(self.resource.clone(), self.ticket));
    }
}

/// The places of this client in the lines of a server, a task for each. Dropped, it leaves them all.
pub(crate) struct LineListener {
    line: Arc<dyn WaitingLine>,
    places: HashMap<Resource, (u64, AbortHandle)>,
    keepers: JoinSet<Result<Infallible, Fault>>,
    notices: (UnboundedSender<Notice>, UnboundedReceiver<Notice>),
}

impl LineListener {
    /// Opens the lines of a server, once it is connected.
    pub(crate) fn open<L: WaitingLine>(
        connecting: impl Future<Output = Result<Arc<L>, Fault>> + Send + 'static,
    ) -> OpeningListener {
        Box::pin(async {
            let (line, places, keepers) = (connecting.await?, HashMap::new(), JoinSet::new());
            let listener = LineListener { line, places, keepers, notices: unbounded_channel() };
            Ok(Box::new(listener) as Box<dyn ReleaseListener>)
        })
    }
}

impl ReleaseListener for LineListener {
    fn wait(&mut self, resource: &Resource, ticket: u64, _: Duration) {
        let reports = PlaceReports { resource: resource.clone(), ticket, notices: self.notices.0.clone() };
        match self.places.get(resource) {
            Some((known, _)) if *known == ticket => reports.registered(false),
            _ => {
                let keeper = Arc::clone(&self.line).keep_place(resource.clone(), reports);
                let place = (ticket, self.keepers.spawn(keeper));
                if let Some((_, left)) = self.places.insert(resource.clone(), place) {
                    left.abort();
                }
            }
        }
    }

    fn leave(&mut self, resource: &Resource, ticket: u64) {
        if self.places.get(resource).is_some_and(|(known, _)| *known == ticket)
            && let Some((_, left)) = self.places.remove(resource)
        {
            left.abort();
        }
        let _ = self.notices.0.send(Notice::Left);
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Notice, Fault>> {
        Box::pin(async {
            loop {
                tokio::select! {
                    biased;
                    Some(notice) = self.notices.1.recv() => return Ok(notice),
                    Some(ended) = self.keepers.join_next() => match ended {
                        Ok(Err(fault)) => return Err(fault),
                        Err(ended) if ended.is_panic() => return Err(Fault::Disconnected("a place was lost".into())),
                        _ => {}
                    },
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Panics;

    impl WaitingLine for Panics {
        fn keep_place(
            self: Arc<Self>,
            resource: Resource,
            _: PlaceReports,
        ) -> BoxFuture<'static, Result<Infallible, Fault>> {
            Box::pin(async move { panic!("{resource}") })
        }
    }

    #[tokio::test]
    async fn a_place_whose_task_panics_fails_the_listener() {
        let mut listener = LineListener::open(async { Ok(Arc::new(Panics)) }).await.unwrap();
        listener.wait(&Resource::new("a").unwrap(), 1, Duration::ZERO);
        assert!(listener.next().await.is_err());
    }
}
