use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fencing_protocol::Resource;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

/// For how long it is remembered that others wait for a resource.
const RECENT: Duration = Duration::from_secs(10);

/// What the servers tell those who wait in this process: that a lock may be free.
///
/// A hint, and nothing rests on it. Lost, late, repeated or forged, it costs a pause of the poll. Each
/// server is a source, by its number.
#[derive(Clone)]
pub(crate) struct ReleaseNotifications(Arc<Inner>);

struct Inner {
    /// So many sources must tell of a release before it is believed at once.
    needed: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tickets: u64,
    /// What is waited for. In order: a test replays it.
    waiting: BTreeMap<Resource, Arc<Wait>>,
    /// The ways to the sources that are open: what is waited for has changed.
    open: BTreeMap<usize, mpsc::UnboundedSender<Resource>>,
    /// The sources that a task attends to.
    attended: BTreeSet<usize>,
    /// The sources of which it was said that they tell nothing.
    reported: BTreeSet<usize>,
    /// The sources whose last release of a resource was told to another process, and when.
    others: BTreeMap<Resource, (Instant, BTreeSet<usize>)>,
}

/// One wait for a resource.
struct Wait {
    ticket: u64,
    since: Instant,
    heard: Mutex<Heard>,
    changed: Notify,
}

#[derive(Default)]
struct Heard {
    /// Who armed of the next release.
    armed: BTreeSet<usize>,
    /// Who has told of one.
    released: BTreeSet<usize>,
    /// Who says that the lock is free there.
    free: BTreeSet<usize>,
}

impl ReleaseNotifications {
    pub(crate) fn new(needed: usize) -> ReleaseNotifications {
        ReleaseNotifications(Arc::new(Inner { needed, state: Mutex::default() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a wait, which began in truth at `since`. It ends when what this returns is dropped.
    pub(crate) fn subscribe(&self, resource: &Resource, since: Instant) -> Subscription {
        let mut state = self.state();
        state.tickets += 1;
        let (heard, changed) = (Mutex::default(), Notify::new());
        let wait = Arc::new(Wait { ticket: state.tickets, since, heard, changed });
        state.waiting.insert(resource.clone(), Arc::clone(&wait));
        state.announce(resource);
        Subscription { notifications: self.clone(), resource: resource.clone(), wait }
    }

    /// Returns the ticket of the wait for a resource, and since when it waits.
    pub(crate) fn wanted(&self, resource: &Resource) -> Option<(u64, Instant)> {
        self.state().waiting.get(resource).map(|wait| (wait.ticket, wait.since))
    }

    fn wait(&self, resource: &Resource, ticket: u64) -> Option<Arc<Wait>> {
        let state = self.state();
        state.waiting.get(resource).filter(|wait| wait.ticket == ticket).cloned()
    }

    /// Takes the hint that the lock was released. Returns whether somebody waits here for it.
    pub(crate) fn notify(&self, resource: &Resource, ticket: u64, source: usize) -> bool {
        let wait = self.wait(resource, ticket);
        if let Some(wait) = &wait {
            let mut heard = wait.heard();
            heard.armed.remove(&source);
            heard.released.insert(source);
            drop(heard);
            wait.changed.notify_one();
        }
        wait.is_some()
    }

    /// Notes what the source answered to a wait: the lock is free there now, or it armed of the next
    /// release.
    pub(crate) fn noted(&self, resource: &Resource, ticket: u64, source: usize, free: bool) {
        let Some(wait) = self.wait(resource, ticket) else { return };
        let mut heard = wait.heard();
        if free {
            heard.free.insert(source)
        } else {
            heard.armed.insert(source)
        };
        drop(heard);
        wait.changed.notify_one();
    }

    /// Notes whether a release was told to another process.
    pub(crate) fn released(&self, resource: &Resource, source: usize, to_another: bool) {
        let (now, mut state) = (Instant::now(), self.state());
        if to_another {
            let others = &mut state.others;
            if others.len() >= 64 && others.len().is_power_of_two() {
                others.retain(|_, (at, _)| now.saturating_duration_since(*at) < RECENT);
            }
            let (at, sources) = others.entry(resource.clone()).or_insert((now, BTreeSet::new()));
            *at = now;
            sources.insert(source);
        } else if let Some((_, sources)) = state.others.get_mut(resource) {
            sources.remove(&source);
            if sources.is_empty() {
                state.others.remove(resource);
            }
        }
    }

    /// Reports whether other processes have waited for the resource, as far as that was heard.
    pub(crate) fn has_remote_waiters(&self, resource: &Resource) -> bool {
        self.state().others.get(resource).is_some_and(|(at, _)| at.elapsed() < RECENT)
    }

    /// Forgets that, until the next release is told to another process.
    pub(crate) fn forget_remote_waiters(&self, resource: &Resource) {
        self.state().others.remove(resource);
    }

    /// Returns the task's part, if no task attends to this source.
    pub(crate) fn attend(&self, source: usize) -> Option<ListenerTask> {
        let new = self.state().attended.insert(source);
        new.then(|| ListenerTask { notifications: self.clone(), source, ended: false })
    }
}

impl State {
    /// Tells the tasks that the wait for this resource began, ended, or must be noted again.
    fn announce(&self, resource: &Resource) {
        for changes in self.open.values() {
            let _ = changes.send(resource.clone());
        }
    }
}

impl Wait {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One source's task, until it is dropped.
pub(crate) struct ListenerTask {
    pub(crate) notifications: ReleaseNotifications,
    pub(crate) source: usize,
    ended: bool,
}

impl ListenerTask {
    /// Returns the resources whose waits change from now on, those that are waited for now first.
    pub(crate) fn changes(&self) -> mpsc::UnboundedReceiver<Resource> {
        let (sender, changes) = mpsc::unbounded_channel();
        let mut state = self.notifications.state();
        for resource in state.waiting.keys() {
            let _ = sender.send(resource.clone());
        }
        state.open.insert(self.source, sender);
        changes
    }

    /// The source armed nothing any more, until its way is open again.
    pub(crate) fn closed(&self) {
        let mut state = self.notifications.state();
        state.open.remove(&self.source);
        for wait in state.waiting.values() {
            wait.heard().armed.remove(&self.source);
        }
    }

    /// Ends this part if nobody waits, and reports whether it did. For the next one who waits another
    /// task is started.
    pub(crate) fn ends_if_idle(&mut self) -> bool {
        let mut state = self.notifications.state();
        if state.waiting.is_empty() {
            self.ended = true;
            state.open.remove(&self.source);
            state.attended.remove(&self.source);
        }
        self.ended
    }

    /// Reports whether this is the first time that something is to be said of this source.
    pub(crate) fn is_news(&self) -> bool {
        self.notifications.state().reported.insert(self.source)
    }
}

impl Drop for ListenerTask {
    fn drop(&mut self) {
        if !self.ended {
            self.closed();
            self.notifications.state().attended.remove(&self.source);
        }
    }
}

/// A wait for a release, until it is dropped.
pub struct Subscription {
    notifications: ReleaseNotifications,
    resource: Resource,
    wait: Arc<Wait>,
}

impl Subscription {
    /// Forgets what was told so far. What is told while an attempt is made counts for the next one.
    pub(crate) fn forget(&self) {
        let mut heard = self.wait.heard();
        heard.released.clear();
        heard.free.clear();
    }

    /// Has the sources note the wait again.
    pub(crate) fn again(&self) {
        self.notifications.state().announce(&self.resource);
    }

    /// Reports whether enough sources tell of the next release.
    pub(crate) fn is_armed(&self) -> bool {
        self.wait.heard().armed.len() >= self.notifications.0.needed
    }

    /// Waits until enough sources have told that the lock may be free, or one has, and the others have
    /// not for as long as the grace.
    ///
    /// # Cancel safety
    /// You may drop it at any point.
    pub(crate) async fn released(&self, grace: Duration) {
        let mut end = None;
        loop {
            let (told, all) = {
                let heard = self.wait.heard();
                (!heard.released.is_empty(), heard.released.union(&heard.free).count())
            };
            if all >= self.notifications.0.needed {
                return;
            }
            if told {
                let end = *end.get_or_insert_with(|| Instant::now() + grace);
                tokio::select! {
                    biased;
                    () = self.wait.changed.notified() => {}
                    () = sleep_until(end) => return,
                }
            } else {
                self.wait.changed.notified().await;
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.notifications.state();
        let own = state.waiting.get(&self.resource).is_some_and(|it| it.ticket == self.wait.ticket);
        if own {
            state.waiting.remove(&self.resource);
            state.announce(&self.resource);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(needed: usize) -> (ReleaseNotifications, Resource, Subscription, u64) {
        let (notifications, resource) =
            (ReleaseNotifications::new(needed), Resource::new("invoice/42").unwrap());
        let subscription = notifications.subscribe(&resource, Instant::now());
        let (ticket, _) = notifications.wanted(&resource).unwrap();
        (notifications, resource, subscription, ticket)
    }

    #[tokio::test(start_paused = true)]
    async fn one_source_of_two_is_believed_after_the_grace() {
        let (notifications, resource, subscription, ticket) = wait(2);
        let (start, grace) = (Instant::now(), Duration::from_millis(50));
        notifications.notify(&resource, ticket, 0);
        subscription.released(grace).await;
        assert_eq!(start.elapsed(), grace);
        notifications.notify(&resource, ticket, 1);
        subscription.released(grace).await;
        assert_eq!(start.elapsed(), grace);
    }

    #[test]
    fn a_source_whose_way_is_closed_tells_of_no_release() {
        let (notifications, resource, subscription, ticket) = wait(1);
        let task = notifications.attend(0).unwrap();
        notifications.noted(&resource, ticket, 0, false);
        assert!(subscription.is_armed());
        task.closed();
        assert!(!subscription.is_armed());
    }
}
