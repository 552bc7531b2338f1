use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fencing_protocol::Resource;
use futures_util::future::OptionFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notifies {
    /// The client that has waited longest. Its registration ends with that.
    LongestWaiter,
    /// Every client that waits. They stay registered.
    #[allow(dead_code, reason = "unused without a database")]
    Everyone,
}

/// The waits of this process, and what each source has reported to them.
pub(crate) struct Subscriptions {
    /// A release is believed at once when this many sources report it.
    needed: usize,
    pub(crate) notifies: Notifies,
    state: Mutex<SubscriptionState>,
}

#[derive(Default)]
struct SubscriptionState {
    registrations: u64,
    /// In order, so that a simulation can replay it.
    waiting: BTreeMap<Resource, Arc<WaitEntry>>,
    /// The sources with a task, each with the way to report changed waits while it is connected.
    attached: BTreeMap<usize, Option<mpsc::UnboundedSender<Resource>>>,
}

struct WaitEntry {
    registration: u64,
    since: Instant,
    reports: Mutex<BTreeMap<usize, SourceReport>>,
    changed: Notify,
}

/// The last report of a source.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceReport {
    /// It reports the next release.
    Armed,
    /// The lock was released.
    Released,
    /// The lock is free there.
    Free,
}

impl Subscriptions {
    pub(crate) fn new(needed: usize, notifies: Notifies) -> Arc<Subscriptions> {
        Arc::new(Subscriptions { needed, notifies, state: Mutex::default() })
    }

    pub(crate) fn subscribe(self: &Arc<Self>, resource: &Resource, since: Instant) -> Subscription {
        let mut state = self.state.lock();
        state.registrations += 1;
        let (reports, changed) = Default::default();
        let entry = Arc::new(WaitEntry { registration: state.registrations, since, reports, changed });
        state.waiting.insert(resource.clone(), Arc::clone(&entry));
        state.announce(resource);
        Subscription { subscriptions: Arc::clone(self), resource: resource.clone(), entry }
    }

    /// Returns the number of the wait for a resource, and its begin.
    pub(crate) fn wanted(&self, resource: &Resource) -> Option<(u64, Instant)> {
        self.state.lock().waiting.get(resource).map(|waiting| (waiting.registration, waiting.since))
    }

    /// Returns the task's part in a source that has no task.
    pub(crate) fn attach(self: &Arc<Self>, source: usize) -> Option<Attachment> {
        let mut state = self.state.lock();
        if state.attached.contains_key(&source) {
            return None;
        }
        state.attached.insert(source, None);
        Some(Attachment { subscriptions: Arc::clone(self), source, attached: true })
    }
}

impl SubscriptionState {
    /// Has the tasks look at the wait for this resource.
    fn announce(&self, resource: &Resource) {
        for changes in self.attached.values().flatten() {
            let _ = changes.send(resource.clone());
        }
    }
}

/// The part of the task that reads one source, until it is dropped.
pub(crate) struct Attachment {
    pub(crate) subscriptions: Arc<Subscriptions>,
    source: usize,
    attached: bool,
}

impl Attachment {
    /// The source is connected. Returns the resources whose waits have to be registered or removed.
    pub(crate) fn connected(&self) -> mpsc::UnboundedReceiver<Resource> {
        let (sender, changes) = mpsc::unbounded_channel();
        let mut state = self.subscriptions.state.lock();
        for resource in state.waiting.keys() {
            let _ = sender.send(resource.clone());
        }
        state.attached.insert(self.source, Some(sender));
        changes
    }

    /// Nothing comes from the source until it is connected again.
    pub(crate) fn disconnected(&self) {
        let mut state = self.subscriptions.state.lock();
        state.attached.insert(self.source, None);
        for entry in state.waiting.values() {
            entry.reports.lock().retain(|source, report| *source != self.source || *report != SourceReport::Armed);
        }
    }

    /// Takes the answer to a registration, or a notification. Returns whether this process waits for it.
    pub(crate) fn report(&self, resource: &Resource, registration: u64, report: SourceReport) -> bool {
        let state = self.subscriptions.state.lock();
        let entry = state.waiting.get(resource).filter(|it| it.registration == registration);
        let Some(entry) = entry else { return false };
        let mut reports = entry.reports.lock();
        let last = reports.entry(self.source).or_insert(report);
        // A release that came while an attempt was made is not forgotten by the registration after it.
        if report != SourceReport::Armed && *last != SourceReport::Released {
            *last = report;
        }
        entry.changed.notify_one();
        true
    }

    /// Detaches the task if there are no waiters, and returns whether it did. The next wait starts another task.
    pub(crate) fn detach_if_idle(&mut self) -> bool {
        let mut state = self.subscriptions.state.lock();
        if state.waiting.is_empty() {
            state.attached.remove(&self.source);
            self.attached = false;
        }
        !self.attached
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if self.attached {
            self.disconnected();
            self.subscriptions.state.lock().attached.remove(&self.source);
        }
    }
}

/// A wait that is registered at the sources, until it is dropped.
pub(crate) struct Subscription {
    subscriptions: Arc<Subscriptions>,
    resource: Resource,
    entry: Arc<WaitEntry>,
}

impl Subscription {
    /// Forgets the releases reported until now. Those that are reported during an attempt count for the next one.
    pub(crate) fn reset(&self) {
        self.entry.reports.lock().retain(|_, report| *report == SourceReport::Armed);
    }

    pub(crate) fn register(&self) {
        self.subscriptions.state.lock().announce(&self.resource);
    }

    /// Registers the wait again after a pause in which no notification was followed. If the sources notify one
    /// client, another has used the releases of that time. If they notify everyone, the lock may be free since.
    pub(crate) fn register_after_cooldown(&self) {
        if self.subscriptions.notifies == Notifies::LongestWaiter {
            self.reset();
        }
        self.register();
    }

    /// Reports whether enough sources report the next release.
    pub(crate) fn is_armed(&self) -> bool {
        self.count(|report| report == SourceReport::Armed) >= self.subscriptions.needed
    }

    fn count(&self, counts: impl Fn(SourceReport) -> bool) -> usize {
        self.entry.reports.lock().values().filter(|report| counts(**report)).count()
    }

    /// Waits until enough sources have reported that the lock may be free, or until one has reported a release, and the
    /// others have not for as long as the grace. It may be dropped at any point.
    pub(crate) async fn released(&self, grace: Duration) {
        let mut end = None;
        while self.count(|report| report != SourceReport::Armed) < self.subscriptions.needed {
            if end.is_none() && self.count(|report| report == SourceReport::Released) > 0 {
                end = Some(Instant::now() + grace);
            }
            tokio::select! {
                biased;
                () = self.entry.changed.notified() => {}
                Some(()) = OptionFuture::from(end.map(sleep_until)) => return,
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.subscriptions.state.lock();
        if state.waiting.get(&self.resource).is_some_and(|entry| Arc::ptr_eq(entry, &self.entry)) {
            state.waiting.remove(&self.resource);
            state.announce(&self.resource);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(needed: usize) -> (Arc<Subscriptions>, Resource, Subscription) {
        let subscriptions = Subscriptions::new(needed, Notifies::LongestWaiter);
        let resource = Resource::new("invoice/42").unwrap();
        let subscription = subscriptions.subscribe(&resource, Instant::now());
        (subscriptions, resource, subscription)
    }

    #[tokio::test(start_paused = true)]
    async fn one_source_of_two_is_believed_after_the_grace() {
        let (subscriptions, resource, subscription) = wait(2);
        let sources = [0, 1].map(|source| subscriptions.attach(source).unwrap());
        let (start, grace) = (Instant::now(), Duration::from_millis(50));
        sources[0].report(&resource, subscription.entry.registration, SourceReport::Released);
        subscription.released(grace).await;
        assert_eq!(start.elapsed(), grace);
        sources[1].report(&resource, subscription.entry.registration, SourceReport::Released);
        subscription.released(grace).await;
        assert_eq!(start.elapsed(), grace);
    }

    #[test]
    fn a_source_that_is_disconnected_reports_no_release() {
        let (subscriptions, resource, subscription) = wait(1);
        let source = subscriptions.attach(0).unwrap();
        source.report(&resource, subscription.entry.registration, SourceReport::Armed);
        assert!(subscription.is_armed());
        source.disconnected();
        assert!(!subscription.is_armed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_during_an_attempt_outlives_the_next_registration() {
        let (subscriptions, resource, subscription) = wait(1);
        let source = subscriptions.attach(0).unwrap();
        subscription.reset();
        source.report(&resource, subscription.entry.registration, SourceReport::Released);
        source.report(&resource, subscription.entry.registration, SourceReport::Armed);
        subscription.released(Duration::MAX).await;
    }
}
