use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use fencing::lock::Loss;
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, sleep};

use super::answers::{FORBIDDEN, NO_LEASE, SUPERSEDED, UNAUTHORIZED};
use super::clients::{Caller, Right, Slot};
use super::lease_server::{Answered, LeaseServer, SharedServer, named, show};
use super::table::KnownLease;
use crate::duration::millis;
use crate::listen::{MALFORMED, Refused, response};

/// How often it is looked whether the lease was renewed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_millis(50);
/// A change of the deadline that is no renewal: two readings of the clock.
const JITTER: Duration = Duration::from_millis(100);

const COMMENT: &str = ":\n\n";

/// The events of one lease, until its end. It takes the slot of a waiter.
struct LeaseEvents {
    leases: Arc<LeaseServer>,
    /// Those of the request: each renewal checks what its client may do by then.
    headers: HeaderMap,
    known: KnownLease,
    /// When it is renewed next, if it is for as long as the events are read.
    renewal: Option<Instant>,
    /// The end of the lease in the last event.
    last_end: Option<Instant>,
    is_over: bool,
    _slot: Slot,
}

/// Shows a lease; where the path ends in `events`, follows it.
pub(super) async fn show_or_follow(
    State(leases): SharedServer,
    caller: Extension<Caller>,
    request: Request,
) -> Answered {
    let id = named(request.uri()).unwrap_or_default();
    let Some(id) = id.strip_suffix("/events") else { return show(&leases, &caller, &id).await };
    let (known, renewal) = match request.uri().query() {
        None => (leases.find(&caller, id, Some(Right::Read))?, None),
        Some("renew=true") => (leases.find_own(&caller, id)?, Some(Instant::now())),
        Some(_) => return Err(MALFORMED.because("the only query is renew=true").into()),
    };
    caller.take_request()?;
    let (slot, headers) = (caller.take_waiter(&leases.waiter_slots)?, request.headers().clone());
    let events = LeaseEvents { leases, headers, known, renewal, last_end: None, is_over: false, _slot: slot };
    let events = stream::unfold(events, async |mut events| Some((Ok::<_, Infallible>(events.next().await?), events)));
    Ok(response(StatusCode::OK, "text/event-stream", Body::from_stream(events)))
}

impl LeaseEvents {
    /// Waits for the next event, or returns a comment where there was none for a while: it shows a dead connection.
    async fn next(&mut self) -> Option<String> {
        if self.is_over || self.leases.stop.is_cancelled() {
            return None;
        }
        if self.renewal.is_some_and(|due| due <= Instant::now()) {
            let begun = Instant::now();
            let pause = match self.renew().await {
                Ok(_) => self.known.ttl / 3,
                Err(refused) if refused.kind == NO_LEASE => return Some(self.end("lost")),
                Err(refused) if refused.kind == SUPERSEDED => return Some(self.end("superseded")),
                // The client has lost its right: the answer to its next request says so.
                Err(refused) if [UNAUTHORIZED, FORBIDDEN].contains(&refused.kind) => return None,
                // A failure is reported by the deadline, which does not move.
                Err(_) => self.known.ttl / 30,
            };
            self.renewal = Some(begun + pause);
        }
        let lease = self.leases.table.look(&self.known.id, |lease| (lease.valid_for(), lease.lost())).await;
        let Some((left, lost)) = lease else {
            // Another process may know more of a sealed one.
            return Some(self.end(if self.known.ticket.is_some() { "unknown" } else { "lost" }));
        };
        let ends = Instant::now() + left;
        if self.last_end.is_none_or(|last| ends > last + JITTER) {
            self.last_end = Some(ends);
            return Some(event("renewed", left));
        }
        tokio::select! {
            loss = lost => match loss {
                Loss::Released => Some(self.end("released")),
                Loss::Superseded => Some(self.end("superseded")),
                // The table says in a moment whether another process may have it.
                _ => {
                    sleep(MOMENT).await;
                    Some(COMMENT.to_owned())
                }
            },
            () = self.leases.stop.cancelled() => None,
            () = sleep(LOOK_INTERVAL.min(self.known.ttl / 6)) => Some(COMMENT.to_owned()),
        }
    }

    async fn renew(&self) -> Result<Duration, Refused> {
        let caller = self.leases.clients.find(&self.headers)?;
        let known = self.leases.find_own(&caller, &self.known.id)?;
        self.leases.renew(&caller, &known).await
    }

    fn end(&mut self, what: &str) -> String {
        self.is_over = true;
        event(what, Duration::ZERO)
    }
}

fn event(what: &str, left: Duration) -> String {
    format!("event: {what}\ndata: {{\"valid_for_ms\":{}}}\n\n", millis(left))
}
