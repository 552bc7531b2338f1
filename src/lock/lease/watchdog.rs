use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{AbortHandle, Abortable, OptionFuture};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use parking_lot::Mutex;
use scopeguard::guard;
use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::holding::Holding;
use crate::lock::error::{Loss, NodeCause};
use crate::lock::runtime::{RESTART_PAUSE, sleep_until};
use crate::log_throttle::LogThrottle;
use crate::random::jitter;
use crate::sequencer::Sequencer;
use crate::time::{Clock, Time};

#[cfg(test)]
mod tests;

/// Renewals that are due within this time go together, at most an eighth of their pause too early. The look at the
/// end of a lease is never early.
const TOGETHER: Duration = Duration::from_millis(40);

/// The number of renewals begun at once. With more, answers would be too old to count when this
/// task reads them. The next ones begin when those have ended, or this much later.
const MAX_RENEWALS: usize = 256;
const NEXT_RENEWALS: Duration = Duration::from_millis(10);

/// How long the task waits for another lease when none is left: a new task for each short lease costs more.
const LINGER: Duration = Duration::from_millis(250);

/// Renews the leases of one lock service, one task for each runtime in which leases were acquired.
#[derive(Default)]
pub(in crate::lock) struct Watchdogs(Mutex<HashMap<Id, Arc<Watchdog>>>);

/// Renews each lease after a third of its TTL, sooner after a failure, until the lease ends, and
/// reports it in log and metrics. Renewals due at the same time go together.
#[derive(Default)]
struct Watchdog {
    watched: Mutex<Watched>,
    /// Wakes the task: a lease is due before the task would wake.
    changed: Notify,
}

#[derive(Default)]
struct Watched {
    leases: HashMap<u64, WatchedLease>,
    /// The next check of each lease.
    looks: BTreeSet<(Time, u64)>,
    number: u64,
    /// Until when the task sleeps, if it does.
    asleep: Option<Time>,
    running: bool,
}

struct WatchedLease {
    holding: Arc<Holding>,
    third: Duration,
    look: Time,
    /// Drops the renewal in flight.
    renewal: Option<AbortHandle>,
    warnings: LogThrottle,
}

/// A lease that is renewed until this is dropped.
pub(super) struct Watch {
    watchdog: Arc<Watchdog>,
    number: u64,
}

impl Watchdogs {
    /// Renews a lease from now on, in the current runtime.
    pub(super) fn watch(&self, runtime: &Handle, holding: Arc<Holding>, ttl: Duration) -> Watch {
        let watchdog = {
            let mut all = self.0.lock();
            if !all.contains_key(&runtime.id()) {
                all.retain(|_, watchdog| Arc::strong_count(watchdog) > 1);
            }
            Arc::clone(all.entry(runtime.id()).or_default())
        };
        let third = ttl / 3;
        // The clock may be the caller's code: it is not read under the lock.
        let look = next_look(&holding, third, true);
        let clock = Arc::clone(&holding.state.clock);
        let (number, start) = {
            let mut watched = watchdog.watched.lock();
            watched.number += 1;
            let number = watched.number;
            let warnings = LogThrottle::default();
            let lease = WatchedLease { holding, third, look, renewal: None, warnings };
            watched.looks.insert((look, number));
            watched.leases.insert(number, lease);
            if watched.asleep.is_none_or(|until| look < until) {
                watchdog.changed.notify_one();
            }
            (number, !std::mem::replace(&mut watched.running, true))
        };
        if start {
            runtime.spawn(keep(Arc::clone(&watchdog), clock));
        }
        Watch { watchdog, number }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watchdog.watched.lock().forget(self.number);
    }
}

impl Watched {
    /// Stops watching a lease, and drops its renewal. Returns whether it was watched.
    fn forget(&mut self, number: u64) -> bool {
        let Some(lease) = self.leases.remove(&number) else { return false };
        self.looks.remove(&(lease.look, number));
        if let Some(renewal) = lease.renewal {
            renewal.abort();
        }
        true
    }

    /// Looks at the lease again at `at`, if it is still watched.
    fn look_again(&mut self, number: u64, at: Time) -> Option<&mut WatchedLease> {
        let lease = self.leases.get_mut(&number)?;
        self.looks.remove(&(lease.look, number));
        self.looks.insert((at, number));
        lease.look = at;
        Some(lease)
    }

    /// Notes the end of the task. If it comes before that of its leases, with its runtime or in a panic, it is started
    /// again, by the next lease at the latest, and looks after all of them.
    fn end(&mut self) {
        (self.running, self.asleep) = (false, None);
        for (number, lease) in self.leases.iter_mut().filter(|(_, lease)| lease.renewal.is_some()) {
            self.looks.remove(&(lease.look, *number));
            (lease.renewal, lease.look) = (None, Time::default());
            self.looks.insert((lease.look, *number));
        }
    }

    /// Returns the leases that are due now, `room` at most, the longest due first.
    fn due(&self, now: Time, room: usize) -> Vec<(u64, Arc<Holding>)> {
        let due = self
            .looks
            .range(..=(now, u64::MAX))
            .filter_map(|(_, number)| Some((*number, Arc::clone(&self.leases.get(number)?.holding))));
        due.take(room).collect()
    }
}

/// Runs until no lease has come for a while. After a panic, of the caller's clock perhaps, it starts again.
async fn keep(watchdog: Arc<Watchdog>, clock: Arc<dyn Clock>) {
    while AssertUnwindSafe(run(&watchdog, &*clock)).catch_unwind().await.is_err() {
        sleep(RESTART_PAUSE).await;
        let mut watched = watchdog.watched.lock();
        // No lease is left, or the next one has started another task.
        if watched.leases.is_empty() || std::mem::replace(&mut watched.running, true) {
            return;
        }
    }
}

async fn run(watchdog: &Watchdog, clock: &dyn Clock) {
    let running = guard(watchdog, |watchdog| watchdog.watched.lock().end());
    let mut renewals = FuturesUnordered::new();
    let (mut busy_until, mut last_used) = (Time::default(), clock.now());
    loop {
        let now = clock.now();
        let room = if now < busy_until { MAX_RENEWALS.saturating_sub(renewals.len()) } else { MAX_RENEWALS };
        let due = watchdog.watched.lock().due(now, room);
        // Not extended by each renewal that begins: slow ones would starve those that wait.
        if !due.is_empty() && now >= busy_until {
            busy_until = now + NEXT_RENEWALS;
        }
        renewals.extend(due.into_iter().filter_map(|(number, holding)| look(watchdog, number, holding)));
        let next = {
            let mut watched = watchdog.watched.lock();
            watched.asleep = match watched.looks.first() {
                // A lease that is due and found no room waits until there is some.
                Some((look, _)) => {
                    last_used = now;
                    Some(if *look <= now { busy_until } else { *look })
                }
                None => Some(last_used + LINGER).filter(|end| *end > now),
            };
            if watched.asleep.is_none() && renewals.is_empty() {
                watched.running = false;
                return std::mem::forget(running);
            }
            watched.asleep
        };
        let mut timer = pin!(OptionFuture::from(next.map(|next| sleep_until(clock, next))));
        let mut changed = pin!(watchdog.changed.notified());
        // Notes all renewals that have ended before the next look.
        poll_fn(|context| {
            let mut progress = changed.as_mut().poll(context).is_ready();
            while let Poll::Ready(Some(())) = renewals.poll_next_unpin(context) {
                progress = true;
            }
            if progress || timer.as_mut().poll(context) == Poll::Ready(Some(())) {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
    }
}

/// Returns when to look at a lease again: after the pause, if it lasts for longer. If the pause follows a grant or a
/// renewal whose answers came so late, it is half of what is left; after a failure no time is left for another renewal.
fn next_look(holding: &Holding, pause: Duration, renewed: bool) -> Time {
    let now = holding.state.clock.now();
    let after = |pause: Duration| {
        let (look, step) = (now + pause, TOGETHER.min(pause / 8).as_nanos().max(1));
        look - Duration::from_nanos((look.since(Time::default()).as_nanos() % step) as u64)
    };
    match holding.state.deadline() {
        Ok(deadline) if deadline > now + pause => after(pause),
        Ok(deadline) if renewed && !holding.state.is_last(deadline) => after(deadline.since(now) / 2),
        Ok(deadline) => deadline,
        Err(_) => now,
    }
}

/// Checks whether a lease has ended, and returns a renewal if one is due.
fn look(watchdog: &Watchdog, number: u64, holding: Arc<Holding>) -> Option<impl Future<Output = ()>> {
    let deadline = match holding.state.deadline() {
        Ok(deadline) => deadline,
        Err(loss) => {
            if watchdog.watched.lock().forget(number) && loss != Loss::Released {
                let Sequencer { resource, token } = &holding.first;
                isolated(|| tracing::warn!(%resource, %token, %loss, "lease lost"));
                isolated(|| metrics::counter!("fencing_leases_lost_total").increment(1));
            }
            return None;
        }
    };
    let mut watched = watchdog.watched.lock();
    let lease = watched.look_again(number, deadline)?;
    // The lease's owner may have renewed it meanwhile: a renewal in flight continues.
    if lease.renewal.is_some() || holding.state.is_last(deadline) {
        return None;
    }
    let (abort, registration) = AbortHandle::new_pair();
    lease.renewal = Some(abort);
    Some(async move {
        // A panic in one renewal ends no other. A renewal is dropped at once when its lease has ended.
        let renewed = AssertUnwindSafe(holding.renew()).catch_unwind();
        if let Ok(renewed) = Abortable::new(renewed, registration).await {
            on_renewed(watchdog, number, &holding, renewed.unwrap_or(Err(Vec::new())));
        }
    })
}

fn on_renewed(watchdog: &Watchdog, number: u64, holding: &Holding, renewed: Result<(), Vec<NodeCause>>) {
    let (third, warning) = {
        let mut watched = watchdog.watched.lock();
        let Some(lease) = watched.leases.get_mut(&number) else { return };
        lease.renewal = None;
        (lease.third, if renewed.is_err() { lease.warnings.next() } else { None })
    };
    let next = if let Err(causes) = renewed {
        if let Some(suppressed) = warning {
            let causes: Vec<String> = causes.iter().map(ToString::to_string).collect();
            let Sequencer { resource, token } = &holding.first;
            let note = || tracing::warn!(%resource, %token, ?causes, suppressed, "lease not renewed yet");
            isolated(note);
        }
        next_look(holding, third / 8 + jitter(third / 8), false)
    } else {
        next_look(holding, third, true)
    };
    watchdog.watched.lock().look_again(number, next);
}

/// Calls the caller's log or metrics. Their panic is no reason to give up leases.
fn isolated(note: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(note));
}
