use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::holder::{Holder, Renewed};
use super::lease::{Loss, Standing};
use super::sleep::{jitter, sleep_until};
use crate::time::{Clock, Time};
use crate::{Resource, Token};

/// What the watchdog watches.
pub(super) struct Ward {
    pub(super) resource: Resource,
    pub(super) token: Token,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) standing: Arc<watch::Sender<Standing>>,
    pub(super) holder: Arc<dyn Holder>,
    pub(super) ttl: Duration,
    /// When `max_hold` is reached.
    pub(super) end: Option<Time>,
}

impl Ward {
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
pub(super) async fn run(ward: Ward) {
    let third = ward.ttl / 3;
    let mut pause = third;
    loop {
        let Standing::Until(deadline) = *ward.standing.borrow() else { return };
        let next = (ward.clock.now() + pause).min(deadline);
        sleep_until(&*ward.clock, next).await;
        let now = ward.clock.now();
        if now >= deadline {
            return over(&ward, Loss::at(deadline, ward.end));
        }
        if ward.end.is_some_and(|end| deadline >= end) {
            pause = deadline.since(now);
            continue;
        }
        let renewal = tokio::select! {
            biased;
            () = sleep_until(&*ward.clock, deadline) => continue,
            renewal = ward.holder.renew() => renewal,
        };
        pause = third;
        match renewal {
            Renewed::Until(until) => {
                let until = ward.end.map_or(until, |end| until.min(end));
                // A lease that lapsed meanwhile is never revived.
                if ward.clock.now() < deadline {
                    ward.set(Standing::Until(until.max(deadline)));
                }
            }
            Renewed::Followed => return over(&ward, Loss::Followed),
            Renewed::Failed(causes) => {
                let causes: Vec<String> = causes.iter().map(ToString::to_string).collect();
                tracing::warn!(
                    resource = %ward.resource, token = %ward.token, ?causes, "lease not renewed yet"
                );
                metrics::counter!("fencing_renewals_failed_total").increment(1);
                pause = third / 8 + jitter(third / 8);
            }
        }
    }
}

fn over(ward: &Ward, loss: Loss) {
    tracing::warn!(resource = %ward.resource, token = %ward.token, %loss, "lease lost");
    metrics::counter!("fencing_leases_lost_total").increment(1);
    ward.set(Standing::Over(loss));
}
