//! To a node that owes an answer nothing but releases is sent. What one session owes is not
//! booked on the next.

use std::time::Duration;

use fencing::lock::redlock::MemoryNode;
use fencing::protocol::Request;
use fencing::{Redlock, Resource};
use tokio::time::{Instant, sleep};

use crate::driver::fleet::{BUDGET, TTL};
use crate::driver::wire::{Fate, Wire};
use support::clock::TokioClock;

fn named(name: &str) -> Resource {
    Resource::new(name).unwrap()
}

/// One node and its client, which has a session.
async fn started() -> (Wire, Redlock) {
    let clock = TokioClock::new();
    let wire = Wire::new(MemoryNode::with_clock("node", clock.clone()));
    let redlock = Redlock::builder().nodes([wire.clone()]).clock(clock);
    let redlock = redlock.ttl(TTL).node_budget(BUDGET).build().unwrap();
    redlock.acquire(&named("warm")).await.unwrap().release().await.unwrap();
    (wire, redlock)
}

fn fate(session: u64, request: &Request, of: u64) -> Fate {
    match request {
        Request::Acquire { resource, .. } if session == of && resource.as_str() == "silent" => {
            Fate::Silence
        }
        Request::Acquire { resource, .. } if session == of && resource.as_str() == "broken" => {
            Fate::Breaks
        }
        _ => Fate::Runs,
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_older_session_owes_does_not_close_the_next_one() {
    let (wire, redlock) = started().await;
    let old = wire.sessions();
    wire.rule(move |session, request| fate(session, request, old));
    // The old session leaves the first unanswered and breaks with the second.
    let silent = tokio::spawn({
        let redlock = redlock.clone();
        async move { redlock.try_acquire(&named("silent")).await.map(drop) }
    });
    sleep(BUDGET / 2).await;
    assert!(redlock.try_acquire(&named("broken")).await.is_err());
    // The next one is open before the first is given up.
    redlock.try_acquire(&named("well")).await.unwrap().release().await.unwrap();
    assert_eq!(wire.sessions(), old + 1);
    assert!(silent.await.unwrap().is_err());
    for round in 0..20 {
        let start = Instant::now();
        let lease = redlock.try_acquire(&named("well")).await;
        let lease = lease.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(start.elapsed(), Duration::ZERO, "round {round}");
        lease.release().await.unwrap();
        sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(wire.sessions(), old + 1);
}

/// So it is for the session that owes it, until it is given up.
#[tokio::test(start_paused = true)]
async fn a_session_that_owes_an_answer_is_asked_nothing_else() {
    let (wire, redlock) = started().await;
    let old = wire.sessions();
    wire.rule(move |session, request| fate(session, request, old));
    let before = wire.acquires().len();
    assert!(redlock.try_acquire(&named("silent")).await.is_err());
    assert!(redlock.try_acquire(&named("well")).await.is_err());
    assert_eq!(wire.acquires().len(), before + 1, "the second was not sent");
    sleep(Duration::from_secs(3)).await;
    assert!(redlock.try_acquire(&named("well")).await.is_ok());
    assert_eq!(wire.sessions(), old + 1);
}
