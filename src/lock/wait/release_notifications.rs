use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fencing_protocol::{Fault, Resource};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::{Instant, interval, sleep, sleep_until, timeout};

use super::subscriptions::{Attachment, Notifies, SourceReport, Subscription, Subscriptions};
use crate::backoff::Backoff;

/// Time for which remote waiters of a resource are remembered.
const RECENT: Duration = Duration::from_secs(10);
/// Time limit for an answer of a server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which a connection stays open without waiters.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// The shortest and the longest pause before a broken connection is opened again.
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// A notification without a local waiter is passed on to the next client, if fewer calls than this are in
/// progress: that bounds the cost of forged notifications.
const MAX_CALLS: usize = 64;

/// The channel of a server's release notifications. No rule depends on one: a lost, late, repeated or forged one costs
/// the pause of a poll. When the channel breaks, [`next`](Self::next) fails, and the caller opens another.
pub trait ReleaseListener: Send + 'static {
    /// Registers this client as waiting for the resource, and for how long it has waited. When the lock
    /// is released, the server notifies the client that has waited longest, with the number of its registration, and
    /// removes that. If the lock is free there now and no other client was notified, the server registers nothing. Its
    /// answer is the [`Notice::Registered`] of this number.
    fn wait(&mut self, resource: &Resource, registration: u64, waited: Duration);

    /// Removes the registration. If this client was notified of a release, and the lock is still free,
    /// the server notifies the next client. Its answer is a [`Notice::Left`].
    fn leave(&mut self, resource: &Resource, registration: u64);

    /// Moves what was asked, and waits for the next notice. If you drop the future, it loses nothing.
    fn next(&mut self) -> BoxFuture<'_, Result<Notice, Fault>>;
}

/// A message of a server to a waiting client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Notice {
    /// The lock was released.
    Released {
        /// The lock that the client waits for.
        resource: Resource,
        /// The client's own number of its registration.
        registration: u64,
    },
    /// The client is registered, unless the lock is free.
    Registered {
        /// The lock that the client waits for.
        resource: Resource,
        /// The client's own number of its registration.
        registration: u64,
        /// Whether the lock is free.
        free: bool,
    },
    /// A registration was removed.
    Left,
}

/// Opens the channel on which a source notifies this client.
pub(crate) type OpeningListener = BoxFuture<'static, Result<Box<dyn ReleaseListener>, Fault>>;

/// A server that notifies clients of releases.
pub(crate) struct Source {
    name: String,
    open: Box<dyn Fn() -> OpeningListener + Send + Sync>,
    /// The log has a warning that it sends no notifications.
    warned: AtomicBool,
}

impl Source {
    pub(crate) fn new(name: &str, open: impl Fn() -> OpeningListener + Send + Sync + 'static) -> Source {
        Source { name: name.to_owned(), open: Box::new(open), warned: AtomicBool::new(false) }
    }
}

/// The servers' reports: that a lock may be free, and that there are remote waiters. While there are waiters, a task
/// for each source keeps them registered there.
pub struct ReleaseNotifications {
    subscriptions: Arc<Subscriptions>,
    sources: Vec<Arc<Source>>,
    /// The sources that have sent the last release of a resource to another process, and when.
    remote: Mutex<BTreeMap<Resource, (Instant, BTreeSet<usize>)>>,
}

impl ReleaseNotifications {
    /// A release is believed at once if `needed` sources report it.
    pub(crate) fn new(needed: usize, notifies: Notifies, sources: Vec<Source>) -> ReleaseNotifications {
        let sources = sources.into_iter().map(Arc::new).collect();
        let subscriptions = Subscriptions::new(needed, notifies);
        ReleaseNotifications { subscriptions, sources, remote: Mutex::default() }
    }

    /// Registers a wait that began at `since`, until what this returns is dropped.
    pub(crate) fn subscribe(&self, resource: &Resource, since: Instant) -> Subscription {
        let subscription = self.subscriptions.subscribe(resource, since);
        for (number, source) in self.sources.iter().enumerate() {
            if let Some(attachment) = self.subscriptions.attach(number) {
                tokio::spawn(listen(attachment, Arc::clone(source)));
            }
        }
        subscription
    }

    /// Notes whether a source has notified another process of this process's release.
    pub(crate) fn on_released(&self, resource: &Resource, source: usize, notified_another: bool) {
        let (now, mut remote) = (Instant::now(), self.remote.lock());
        if notified_another {
            if remote.len() >= 64 && remote.len().is_power_of_two() {
                remote.retain(|_, (at, _)| now.saturating_duration_since(*at) < RECENT);
            }
            let (at, sources) = remote.entry(resource.clone()).or_insert((now, BTreeSet::new()));
            *at = now;
            sources.insert(source);
        } else if let Some((_, sources)) = remote.get_mut(resource) {
            sources.remove(&source);
            if sources.is_empty() {
                remote.remove(resource);
            }
        }
    }

    /// Reports whether the answer to a release says that another process was notified.
    pub(crate) fn report_remote_waiters(&self) -> bool {
        self.subscriptions.notifies == Notifies::LongestWaiter
    }

    /// Reports whether clients in other processes are known to wait for the resource.
    pub(crate) fn has_remote_waiters(&self, resource: &Resource) -> bool {
        self.remote.lock().get(resource).is_some_and(|(at, _)| at.elapsed() < RECENT)
    }

    /// Reports whether the last release here is known to have notified another process.
    pub(crate) fn has_notified_another(&self, resource: &Resource) -> bool {
        self.remote.lock().contains_key(resource)
    }

    /// Forgets them, until another process is notified of a release.
    pub(crate) fn forget_remote_waiters(&self, resource: &Resource) {
        self.remote.lock().remove(resource);
    }
}

/// Receives what one source sends, until there are no waiters.
async fn listen(mut attachment: Attachment, source: Arc<Source>) {
    let (node, mut backoff) = (&source.name, Backoff::new(MIN_PAUSE, MAX_PAUSE));
    loop {
        let start = Instant::now();
        let Err(fault) = receive(&mut attachment, (source.open)()).await else { return };
        attachment.disconnected();
        if matches!(fault, Fault::Denied(_) | Fault::Refused(_)) && !source.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(node, %fault, "no notifications of releases: waiting clients poll");
        } else {
            tracing::debug!(node, %fault, "no notifications of releases");
        }
        if start.elapsed() > MAX_PAUSE {
            backoff.reset();
        }
        sleep(backoff.pause()).await;
        if attachment.detach_if_idle() {
            return;
        }
    }
}

/// An open channel to a source: the waits that are registered there, and the number of answers that it owes.
struct Channel {
    listener: Box<dyn ReleaseListener>,
    registered: BTreeMap<Resource, u64>,
    owed: usize,
}

impl Channel {
    /// Registers the wait that is wanted now, in place of the one before.
    fn register(&mut self, resource: Resource, wanted: Option<(u64, Instant)>) {
        if let Some(old) = self.registered.remove(&resource)
            && wanted.is_none_or(|(registration, _)| registration != old)
        {
            self.leave(&resource, old);
        }
        if let Some((registration, since)) = wanted {
            self.owed += 1;
            self.listener.wait(&resource, registration, since.elapsed());
            self.registered.insert(resource, registration);
        }
    }

    fn leave(&mut self, resource: &Resource, registration: u64) {
        self.owed += 1;
        self.listener.leave(resource, registration);
    }

    /// Passes on what the source has sent.
    fn take(&mut self, notice: Notice, attachment: &Attachment) {
        match notice {
            Notice::Released { resource, registration } => {
                let waits = attachment.report(&resource, registration, SourceReport::Released);
                if attachment.subscriptions.notifies == Notifies::LongestWaiter {
                    self.registered.remove(&resource);
                    if !waits && self.owed < MAX_CALLS {
                        self.leave(&resource, registration);
                    }
                }
            }
            Notice::Registered { resource, registration, free } => {
                self.owed = self.owed.saturating_sub(1);
                let report = if free { SourceReport::Free } else { SourceReport::Armed };
                attachment.report(&resource, registration, report);
            }
            Notice::Left => self.owed = self.owed.saturating_sub(1),
        }
    }
}

/// Opens the channel, keeps the waits registered and takes the notifications, until there are no waiters.
async fn receive(attachment: &mut Attachment, opening: OpeningListener) -> Result<(), Fault> {
    let listener = timeout(ANSWER_TIMEOUT, opening).await.unwrap_or(Err(Fault::TimedOut))?;
    let mut changes = attachment.connected();
    let mut channel = Channel { listener, registered: BTreeMap::new(), owed: 0 };
    let (mut idle, mut used) = (interval(IDLE_TIMEOUT), Instant::now());
    // The time since which the source has given none of the answers that it owes.
    let mut silent_since = Instant::now();
    loop {
        let before = channel.owed;
        tokio::select! {
            biased;
            Some(resource) = changes.recv() => {
                used = Instant::now();
                let wanted = attachment.subscriptions.wanted(&resource);
                channel.register(resource, wanted);
            }
            notice = channel.listener.next() => channel.take(notice?, attachment),
            () = sleep_until(silent_since + ANSWER_TIMEOUT), if before > 0 => return Err(Fault::TimedOut),
            _ = idle.tick() => {
                if used.elapsed() >= IDLE_TIMEOUT && attachment.detach_if_idle() {
                    return Ok(());
                }
            }
        }
        if before == 0 || channel.owed < before {
            silent_since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// A channel that breaks at once.
    struct Broken;

    impl ReleaseListener for Broken {
        fn wait(&mut self, _: &Resource, _: u64, _: Duration) {}

        fn leave(&mut self, _: &Resource, _: u64) {}

        fn next(&mut self) -> BoxFuture<'_, Result<Notice, Fault>> {
            Box::pin(ready(Err(Fault::TimedOut)))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_channel_that_breaks_is_opened_again_while_a_client_waits() {
        let opened = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&opened);
        let source = Source::new("a", move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let listener: Box<dyn ReleaseListener> = Box::new(Broken);
            Box::pin(ready(Ok(listener)))
        });
        let notifications = ReleaseNotifications::new(1, Notifies::LongestWaiter, vec![source]);
        let resource = Resource::new("invoice/42").unwrap();
        let _subscription = notifications.subscribe(&resource, Instant::now());
        sleep(MAX_PAUSE).await;
        assert!(opened.load(Ordering::Relaxed) > 1);
    }
}
