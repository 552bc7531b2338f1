use std::time::Duration;

use fencing_protocol::{Mode, Resource};
use tokio::time::{Instant, sleep_until};

use super::AcquireError;
use super::backend::LockBackend;
use super::backoff::{Backoff, pause};
use super::hints::Listening;
use super::queue::Queue;
use super::settings::Settings;
use crate::random::jitter;

/// For how many retry delays leases of one process may follow one another before others, who only poll,
/// get a pause in which to ask.
const LONGEST_STREAK: u32 = 10;
/// Hints in vain are followed later and later, by so much each time, so many times.
const VAIN: Duration = Duration::from_millis(10);
const MOST_VAIN: u32 = 10;

/// The one in a process who asks the servers for a resource.
pub(super) struct Contender<'a, B> {
    queue: &'a Queue,
    backend: &'a B,
    resource: &'a Resource,
    settings: &'a Settings,
    mode: Mode,
    since: Instant,
    listening: Option<Listening>,
    backoff: Backoff,
    /// How many hints it has followed in vain, and until when it follows no more.
    vain: u32,
    deaf: Option<Instant>,
}

/// Why a contender asks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    /// A lease of this process was released.
    Here,
    /// The same, and nobody elsewhere was told.
    Passed,
    /// The servers have told that the lock may be free.
    Told,
    /// A pause is over.
    Paused,
}

impl<'a, B: LockBackend> Contender<'a, B> {
    pub(super) fn new(
        queue: &'a Queue,
        (backend, resource, settings): (&'a B, &'a Resource, &'a Settings),
        mode: Mode,
        since: Instant,
    ) -> Contender<'a, B> {
        let (listening, backoff, vain, deaf) = (None, Backoff::default(), 0, None);
        Contender {
            queue,
            backend,
            resource,
            settings,
            mode,
            since,
            listening,
            backoff,
            vain,
            deaf,
        }
    }

    /// Makes attempts until one succeeds or the wait limit is reached; not before `after`, unless it is
    /// woken.
    pub(super) async fn acquire<F, L>(
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
            if let Some(listening) = &self.listening {
                listening.forget();
            }
            let error = match attempt().await {
                Ok(lease) => {
                    self.queue.on_acquired(self.mode, self.settings.retry_delay);
                    let others = self.backend.others_wait(self.resource);
                    self.queue.in_turn(woken == Woken::Passed, others);
                    if self.mode == Mode::Shared {
                        // Those behind it need no pause each: who was told has had its time, and who waits
                        // to hold it alone keeps them out by itself.
                        self.backend.forget_others(self.resource);
                    }
                    return Ok(lease);
                }
                Err(error) => error,
            };
            match woken {
                Woken::Told => {
                    self.vain = (self.vain + 1).min(MOST_VAIN);
                    self.deaf = Some(asked + VAIN * self.vain);
                }
                Woken::Here | Woken::Passed => self.queue.breaks_streak(),
                Woken::Paused => {}
            }
            let next = self.next(&error, end);
            // The next one of the queue is not bound by this one's longer pauses.
            self.queue.on_error(&error, next.min(Instant::now() + pause(self.settings)));
            if next >= end {
                if !self.queue.takes_pass() {
                    return Err(error);
                }
                // Nobody else knows that the lock is free.
                woken = Woken::Passed;
                continue;
            }
            self.deaf = self.deaf.filter(|until| *until > Instant::now());
            if self.deaf.is_none() {
                self.listen();
            }
            woken = self.wait(next).await;
        }
    }

    /// Waits before the first attempt, where there is something to wait for.
    async fn first(&mut self, after: Option<Instant>, end: Instant) -> Woken {
        if self.queue.takes_pass() {
            return Woken::Passed;
        }
        let (now, others) = (Instant::now(), self.backend.others_wait(self.resource));
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
        // What is held here may be passed on here.
        if after.is_some() || (others && !held) {
            self.listen();
        }
        self.wait(next).await
    }

    /// Returns when to ask again if nobody tells anything. The last attempt is made shortly before the
    /// end.
    fn next(&mut self, error: &AcquireError, end: Instant) -> Instant {
        let told = self.listening.as_ref().is_some_and(Listening::hears);
        let retry_after = match error {
            AcquireError::Held { retry_after, .. } => Some(*retry_after),
            _ => None,
        };
        let now = Instant::now();
        let next = now + self.backoff.next(self.settings, retry_after, told);
        let last = end.checked_sub(self.settings.retry_delay / 2).unwrap_or(now);
        if next >= end && last > now { last } else { next }
    }

    /// Has the servers note that it waits, or note it again.
    fn listen(&mut self) {
        match &self.listening {
            Some(listening) => listening.again(),
            None => self.listening = Some(self.backend.listen(self.resource, self.since)),
        }
    }

    /// Waits until `next`, or until it is woken. While it is deaf it is not noted, and the servers tell
    /// somebody else: however many hints come, they do not have it ask more often.
    async fn wait(&mut self, mut next: Instant) -> Woken {
        loop {
            let hears = self.listening.as_ref().filter(|_| self.deaf.is_none());
            let told = told(hears, self.grace());
            tokio::select! {
                biased;
                () = told => return Woken::Told,
                () = self.queue.released.notified() => {}
                () = sleep_until(self.deaf.map_or(next, |until| until.min(next))) => {
                    if self.deaf.is_none_or(|until| until >= next) {
                        return Woken::Paused;
                    }
                    self.deaf = None;
                    // Where servers tell one at a time, what was told so far is about a release that somebody
                    // else has used. Where they tell everybody, the lock may be free since.
                    if let (true, Some(listening)) = (B::TELLS_OF_OTHERS, &self.listening) {
                        listening.forget();
                    }
                    self.listen();
                    continue;
                }
            }
            if self.queue.takes_pass() {
                return Woken::Passed;
            }
            if !self.backend.others_wait(self.resource) {
                return Woken::Here;
            }
            // The servers tell who has waited longest, here or elsewhere.
            if self.listening.is_none() {
                self.listen();
            }
            next = next.min(Instant::now() + pause(self.settings));
        }
    }

    /// Returns how long it waits for more servers to tell what one has told.
    fn grace(&self) -> Duration {
        let most = self.settings.budget() / 10;
        most / 2 + jitter(most / 2)
    }

    /// Leases of one process follow one another for a time only: then others, who ask now and again,
    /// get a pause in which to ask.
    async fn give_way(&self, woken: Woken, end: Instant) {
        match woken {
            Woken::Told => return self.queue.breaks_streak(),
            // Nobody else knows that the lock is free.
            Woken::Passed => return,
            Woken::Here | Woken::Paused => {}
        }
        if self.queue.ends_streak(self.settings.retry_delay.saturating_mul(LONGEST_STREAK)) {
            sleep_until(end.min(Instant::now() + pause(self.settings))).await;
        }
    }
}

/// Waits until the servers have told that the lock may be free.
async fn told(listening: Option<&Listening>, grace: Duration) {
    match listening {
        Some(listening) => listening.told(grace).await,
        None => std::future::pending().await,
    }
}
