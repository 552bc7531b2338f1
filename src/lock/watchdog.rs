use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::held_lock::{HeldLock, Renewed};
use super::lease::{Loss, Standing};
use super::sleep::sleep_until;
use crate::random::jitter;
use crate::resource::Resource;
use crate::time::{Clock, Time};
use crate::token::Token;

/// What the watchdog watches.
pub(super) struct Watchdog {
    pub(super) resource: Resource,
    pub(super) token: Token,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) standing: Arc<watch::Sender<Standing>>,
    pub(super) holder: Arc<dyn HeldLock>,
    pub(super) ttl: Duration,
    /// When `max_hold` is reached.
    pub(super) end: Option<Time>,
}

impl Watchdog {
    /// A lease that is over stays so.
    fn set(&self, next: Standing) {
        self.standing.send_if_modified(|standing| {
            let held = matches!(standing, Standing::Until(_));
            if held {
                *standing = next;
            }
            held
        });
    }
}

/// Renews each third of the TTL, sooner after a failure, and stops for good at loss or
/// at `max_hold`. The lease aborts it at release.
pub(super) async fn run(watchdog: Watchdog) {
    let third = watchdog.ttl / 3;
    let mut pause = third;
    loop {
        let Standing::Until(deadline) = *watchdog.standing.borrow() else { return };
        let next = (watchdog.clock.now() + pause).min(deadline);
        sleep_until(&*watchdog.clock, next).await;
        let now = watchdog.clock.now();
        if now >= deadline {
            return over(&watchdog, Loss::at(deadline, watchdog.end));
        }
        if watchdog.end.is_some_and(|end| deadline >= end) {
            pause = deadline.since(now);
            continue;
        }
        let renewal = tokio::select! {
            biased;
            () = sleep_until(&*watchdog.clock, deadline) => continue,
            renewal = watchdog.holder.renew() => renewal,
        };
        pause = third;
        match renewal {
            Renewed::Until(until) => {
                let until = watchdog.end.map_or(until, |end| until.min(end));
                // A lease that lapsed meanwhile is never revived.
                if watchdog.clock.now() < deadline {
                    watchdog.set(Standing::Until(until.max(deadline)));
                }
            }
            Renewed::Superseded => return over(&watchdog, Loss::Superseded),
            Renewed::Failed(causes) => {
                let causes: Vec<String> = causes.iter().map(ToString::to_string).collect();
                tracing::warn!(
                    resource = %watchdog.resource, token = %watchdog.token, ?causes, "lease not renewed yet"
                );
                metrics::counter!("fencing_renewals_failed_total").increment(1);
                pause = third / 8 + jitter(third / 8);
            }
        }
    }
}

fn over(watchdog: &Watchdog, loss: Loss) {
    tracing::warn!(resource = %watchdog.resource, token = %watchdog.token, %loss, "lease lost");
    metrics::counter!("fencing_leases_lost_total").increment(1);
    watchdog.set(Standing::Over(loss));
}
