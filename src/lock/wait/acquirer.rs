use std::time::Duration;

use fencing_protocol::{Mode, Resource};
use tokio::time::{Instant, sleep_until};

use super::backoff::{Backoff, pause};
use super::notifications::Subscription;
use super::queue::WaitQueue;
use crate::lock::AcquireError;
use crate::lock::backend::LockBackend;
use crate::lock::settings::Settings;
use crate::random::jitter;

/// For how many retry delays leases of one process may follow one another before others, who only poll,
/// get a pause in which to ask.
const MAX_STREAK: u32 = 10;
/// The cool-down after a lost race grows by this step with each lost wake-up, up to a bound.
const COOLDOWN: Duration = Duration::from_millis(10);
const MAX_LOST_WAKEUPS: u32 = 10;

/// The one in a process who asks the servers for a resource.
pub(crate) struct Acquirer<'a, B> {
    queue: &'a WaitQueue,
    backend: &'a B,
    resource: &'a Resource,
    settings: &'a Settings,
    mode: Mode,
    since: Instant,
    subscription: Option<Subscription>,
    backoff: Backoff,
    /// Consecutive lost wake-ups, and until when notifications are ignored.
    lost_wakeups: u32,
    cooldown_until: Option<Instant>,
}

/// Why the acquirer asks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    /// A lease of this process was released.
    Here,
    /// The same, and nobody elsewhere was notified.
    HandedOver,
    /// The servers have notified this client that the lock may be free.
    Notified,
    /// A pause is over.
    Paused,
}

impl<'a, B: LockBackend> Acquirer<'a, B> {
    pub(crate) fn new(
        queue: &'a WaitQueue,
        (backend, resource, settings): (&'a B, &'a Resource, &'a Settings),
        mode: Mode,
        since: Instant,
    ) -> Acquirer<'a, B> {
        let (subscription, backoff, lost_wakeups, cooldown_until) =
            (None, Backoff::default(), 0, None);
        Acquirer {
            queue,
            backend,
            resource,
            settings,
            mode,
            since,
            subscription,
            backoff,
            lost_wakeups,
            cooldown_until,
        }
    }

    /// Makes attempts until one succeeds or the wait limit is reached; not before `after`, unless it is
    /// woken.
    pub(crate) async fn acquire<F, L>(
        mut self,
        after: Option<Instant>,
        attempt: impl Fn() -> F,
    ) -> Result<L, AcquireError>
    where
        F: Future<Output = Result<L, AcquireError>>,
    {
        let end = self.since + self.settings.wait;
        let mut woken = self.first(after, end).await;
        loop {
            self.give_way(woken, end).await;
            let asked = Instant::now();
            if let Some(subscription) = &self.subscription {
                subscription.forget();
            }
            let error = match attempt().await {
                Ok(lease) => {
                    self.queue.on_acquired(self.mode, self.settings.retry_delay);
                    let others = self.backend.has_remote_waiters(self.resource);
                    self.queue.on_hand_over(woken == Woken::HandedOver, others);
                    if self.mode == Mode::Shared {
                        // Those behind it need no pause each: who was notified has had its time, and who waits
                        // to hold it alone keeps them out by itself.
                        self.backend.forget_remote_waiters(self.resource);
                    }
                    return Ok(lease);
                }
                Err(error) => error,
            };
            match woken {
                Woken::Notified => {
                    self.lost_wakeups = (self.lost_wakeups + 1).min(MAX_LOST_WAKEUPS);
                    self.cooldown_until = Some(asked + COOLDOWN * self.lost_wakeups);
                }
                Woken::Here | Woken::HandedOver => self.queue.breaks_streak(),
                Woken::Paused => {}
            }
            let next = self.next(&error, end);
            // The next one of the queue is not bound by this one's longer pauses.
            self.queue.on_error(&error, next.min(Instant::now() + pause(self.settings)));
            if next >= end {
                if !self.queue.take_hand_over() {
                    return Err(error);
                }
                // Nobody else knows that the lock is free.
                woken = Woken::HandedOver;
                continue;
            }
            self.cooldown_until = self.cooldown_until.filter(|until| *until > Instant::now());
            if self.cooldown_until.is_none() {
                self.listen();
            }
            woken = self.wait(next).await;
        }
    }

    /// Waits before the first attempt, where there is something to wait for.
    async fn first(&mut self, after: Option<Instant>, end: Instant) -> Woken {
        if self.queue.take_hand_over() {
            return Woken::HandedOver;
        }
        let (now, others) = (Instant::now(), self.backend.has_remote_waiters(self.resource));
        let held = self.queue.is_held();
        let next = match after {
            Some(after) => after,
            None if others || held => now + pause(self.settings),
            None => now,
        };
        let next = next.min(end);
        if next <= now {
            return Woken::Paused;
        }
        // What is held here may be handed over here.
        if after.is_some() || (others && !held) {
            self.listen();
        }
        self.wait(next).await
    }

    /// Returns when to ask again without a notification. The last attempt is made shortly before the
    /// end.
    fn next(&mut self, error: &AcquireError, end: Instant) -> Instant {
        let notified = self.subscription.as_ref().is_some_and(Subscription::is_armed);
        let retry_after = match error {
            AcquireError::Held { retry_after, .. } => Some(*retry_after),
            _ => None,
        };
        let now = Instant::now();
        let next = now + self.backoff.next(self.settings, retry_after, notified);
        let last = end.checked_sub(self.settings.retry_delay / 2).unwrap_or(now);
        if next >= end && last > now { last } else { next }
    }

    /// Has the servers note that it waits, or note it again.
    fn listen(&mut self) {
        match &self.subscription {
            Some(subscription) => subscription.again(),
            None => self.subscription = Some(self.backend.subscribe(self.resource, self.since)),
        }
    }

    /// Waits until `next`, or until it is woken. While it cools down it is not registered, and the
    /// servers notify another client: however many notifications come, it does not ask more often.
    async fn wait(&mut self, mut next: Instant) -> Woken {
        loop {
            let hears = self.subscription.as_ref().filter(|_| self.cooldown_until.is_none());
            let notified = notified(hears, self.grace());
            tokio::select! {
                biased;
                () = notified => return Woken::Notified,
                () = self.queue.released.notified() => {}
                () = sleep_until(self.cooldown_until.map_or(next, |until| until.min(next))) => {
                    if self.cooldown_until.is_none_or(|until| until >= next) {
                        return Woken::Paused;
                    }
                    self.cooldown_until = None;
                    // Where servers tell one at a time, a notification until now is about a release that somebody
                    // else has used. Where they tell everybody, the lock may be free since.
                    if let (true, Some(subscription)) = (B::REPORTS_REMOTE_WAITERS, &self.subscription) {
                        subscription.forget();
                    }
                    self.listen();
                    continue;
                }
            }
            if self.queue.take_hand_over() {
                return Woken::HandedOver;
            }
            if !self.backend.has_remote_waiters(self.resource) {
                return Woken::Here;
            }
            // The servers tell who has waited longest, here or elsewhere.
            if self.subscription.is_none() {
                self.listen();
            }
            next = next.min(Instant::now() + pause(self.settings));
        }
    }

    /// Returns how long it waits for more servers to report what one has reported.
    fn grace(&self) -> Duration {
        let most = self.settings.budget() / 10;
        most / 2 + jitter(most / 2)
    }

    /// Leases of one process follow one another for a time only: then others, who ask now and again,
    /// get a pause in which to ask.
    async fn give_way(&self, woken: Woken, end: Instant) {
        match woken {
            Woken::Notified => return self.queue.breaks_streak(),
            // Nobody else knows that the lock is free.
            Woken::HandedOver => return,
            Woken::Here | Woken::Paused => {}
        }
        if self.queue.ends_streak(self.settings.retry_delay.saturating_mul(MAX_STREAK)) {
            sleep_until(end.min(Instant::now() + pause(self.settings))).await;
        }
    }
}

/// Waits until the servers have notified that the lock may be free.
async fn notified(subscription: Option<&Subscription>, grace: Duration) {
    match subscription {
        Some(subscription) => subscription.released(grace).await,
        None => std::future::pending().await,
    }
}
