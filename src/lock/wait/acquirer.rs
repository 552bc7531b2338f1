use std::time::Duration;

use fencing_protocol::Mode;
use tokio::time::{Instant, sleep_until};

use super::backoff::{growing_pause, pause};
use super::queue::WaitQueue;
use super::subscriptions::Subscription;
use super::wanted::Wanted;
use crate::lock::error::AcquireError;
use crate::random::jitter;

/// After a notification that led to no lease, the next ones are not followed for this long, and for longer with
/// each such loss in a row, up to this many.
const COOLDOWN: Duration = Duration::from_millis(10);
const MAX_LOST_WAKEUPS: u32 = 10;

/// The caller of a process that asks the servers for a resource: attempts, backs off, and waits for what comes first.
pub(crate) struct Acquirer<'a> {
    queue: &'a WaitQueue,
    wanted: Wanted<'a>,
    subscription: Option<Subscription>,
    /// Failed attempts.
    attempts: u32,
    /// Consecutive notifications that led to no lease.
    lost_wakeups: u32,
    cooldown_until: Option<Instant>,
}

/// The reason of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WokenBy {
    /// A lease of this process was released.
    LocalRelease,
    /// The same, and no other client knows that the lock is free.
    HandOver,
    /// Servers have reported that the lock may be free.
    Notification,
    /// The end of a pause.
    Pause,
}

impl<'a> Acquirer<'a> {
    pub(crate) fn new(queue: &'a WaitQueue, wanted: Wanted<'a>) -> Acquirer<'a> {
        Acquirer { queue, wanted, subscription: None, attempts: 0, lost_wakeups: 0, cooldown_until: None }
    }

    /// Makes attempts until one succeeds or the wait limit is reached; the first not before `after`, unless it is
    /// woken. This many `acquirers` of this process ask for the blocking resource: they share the pauses.
    pub(crate) async fn acquire<F, L>(
        mut self,
        after: Option<Instant>,
        acquirers: impl Fn(&AcquireError) -> usize,
        attempt: impl Fn() -> F,
    ) -> Result<L, AcquireError>
    where
        F: Future<Output = Result<L, AcquireError>>,
    {
        let mut woken_by = self.first(after).await;
        loop {
            self.let_others_ask(woken_by).await;
            if let Some(subscription) = &self.subscription {
                subscription.reset();
            }
            let asked = Instant::now();
            let error = match attempt().await {
                Ok(lease) => {
                    self.on_acquired(woken_by);
                    return Ok(lease);
                }
                Err(error) => error,
            };
            match woken_by {
                WokenBy::Notification => {
                    self.lost_wakeups = (self.lost_wakeups + 1).min(MAX_LOST_WAKEUPS);
                    self.cooldown_until = Some(asked + COOLDOWN * self.lost_wakeups);
                }
                WokenBy::LocalRelease | WokenBy::HandOver => self.queue.break_streak(),
                WokenBy::Pause => {}
            }
            let next = self.next(&error, acquirers(&error));
            // The next acquirer is not bound by the longer pauses of this one.
            self.queue.on_error(&error, next.min(self.in_a_pause()));
            if next >= self.wanted.ask.end || error.is_permanent() {
                if !self.queue.take_hand_over() {
                    return Err(error);
                }
                woken_by = WokenBy::HandOver;
                continue;
            }
            self.cooldown_until = self.cooldown_until.filter(|until| *until > Instant::now());
            if self.cooldown_until.is_none() {
                self.register();
            }
            woken_by = self.wait(next).await;
        }
    }

    fn on_acquired(&self, woken_by: WokenBy) {
        self.queue.on_acquired(&self.wanted, woken_by == WokenBy::HandOver);
        if let (Mode::Shared, Some((resource, notifications))) = (self.wanted.ask.mode, self.wanted.notifications()) {
            // The callers behind it need no pause each: the client that was notified has had its time, and one
            // that waits for an exclusive lease blocks them itself.
            notifications.forget_remote_waiters(resource);
        }
    }

    fn in_a_pause(&self) -> Instant {
        Instant::now() + pause(self.wanted.settings)
    }

    /// Waits before the first attempt, where there is something to wait for.
    async fn first(&mut self, after: Option<Instant>) -> WokenBy {
        if self.queue.take_hand_over() {
            return WokenBy::HandOver;
        }
        let (held, contested) = (self.queue.is_held(), self.wanted.has_remote_waiters());
        let now = Instant::now();
        let next = match after {
            Some(after) => after,
            None if held || contested => self.in_a_pause(),
            None => now,
        };
        let next = next.min(self.wanted.ask.end);
        if next <= now {
            return WokenBy::Pause;
        }
        // A lock held here may be handed over here.
        if after.is_some() || (contested && !held) {
            self.register();
        }
        self.wait(next).await
    }

    /// Returns when to ask again without a notification. The last attempt is made shortly before the end.
    fn next(&mut self, error: &AcquireError, acquirers: usize) -> Instant {
        let armed = self.subscription.as_ref().is_some_and(Subscription::is_armed);
        let retry_after = if let AcquireError::Held { retry_after, .. } = error { Some(*retry_after) } else { None };
        let (now, settings) = (Instant::now(), self.wanted.settings);
        let others = u32::try_from(2 * acquirers.saturating_sub(1)).unwrap_or(u32::MAX);
        let others = jitter(settings.retry_delay.saturating_mul(others));
        let next = now + growing_pause(settings, self.attempts, retry_after, armed) + others;
        self.attempts = self.attempts.saturating_add(1);
        let last = self.wanted.ask.end.checked_sub(settings.retry_delay / 2).unwrap_or(now);
        if next >= self.wanted.ask.end && last > now { last } else { next }
    }

    fn register(&mut self) {
        if let Some(subscription) = &self.subscription {
            subscription.register();
        } else if let Some((resource, notifications)) = self.wanted.notifications() {
            self.subscription = Some(notifications.subscribe(resource, self.wanted.since));
        }
    }

    /// Waits until `next`, or until it is woken. During the cool-down after a lost race it is not registered, and
    /// the servers notify another client: more notifications do not make it ask more often.
    async fn wait(&mut self, mut next: Instant) -> WokenBy {
        loop {
            let alarm = self.cooldown_until.map_or(next, |until| until.min(next));
            tokio::select! {
                biased;
                () = self.notified() => return WokenBy::Notification,
                () = self.queue.released.notified() => {}
                () = sleep_until(alarm) => {
                    if alarm >= next {
                        return WokenBy::Pause;
                    }
                    self.cooldown_until = None;
                    if let Some(subscription) = &self.subscription {
                        subscription.register_after_cooldown();
                    }
                    continue;
                }
            }
            if self.queue.take_hand_over() {
                return WokenBy::HandOver;
            }
            // The lease may have been held for longer than remote waiters are remembered.
            if !self.wanted.notifications().is_some_and(|(resource, it)| it.has_notified_another(resource)) {
                return WokenBy::LocalRelease;
            }
            // The servers notify the client that has waited longest, here or elsewhere.
            if self.subscription.is_none() {
                self.register();
            }
            next = next.min(self.in_a_pause());
        }
    }

    /// Waits for notifications worth an attempt. When one server reports a release, the others have a moment to do so.
    async fn notified(&self) {
        let most = self.wanted.settings.budget() / 10;
        match &self.subscription {
            Some(subscription) if self.cooldown_until.is_none() => {
                subscription.released(most / 2 + jitter(most / 2)).await;
            }
            _ => std::future::pending().await,
        }
    }

    /// Leases of one process follow one another up to a bound. Then clients that only poll get a pause in which to ask.
    async fn let_others_ask(&self, woken_by: WokenBy) {
        match woken_by {
            WokenBy::Notification => self.queue.break_streak(),
            // No other client knows that the lock is free.
            WokenBy::HandOver => {}
            WokenBy::LocalRelease | WokenBy::Pause => {
                if self.queue.ends_streak(&self.wanted) {
                    sleep_until(self.wanted.ask.end.min(self.in_a_pause())).await;
                }
            }
        }
    }
}
