//! What waits while a node owes an answer: it is sent when the answer comes in time for it,
//! and refused otherwise. Releases do not wait. What one session owes is not booked on the next.

use fencing::lock::RenewError;

use crate::driver::fleet::*;
use crate::driver::wire::{Fate, Wire};

/// One node and its client, which has a session.
async fn started() -> (Wire, Redlock) {
    let clock = TokioClock::new();
    let wire = Wire::new(MemoryNode::with_clock("node", clock.clone()));
    let redlock = Redlock::builder().nodes([wire.clone()]).clock(clock);
    let redlock = redlock.ttl(TTL).node_budget(BUDGET).build().unwrap();
    redlock.acquire(&named("warm")).await.unwrap().release().await.unwrap();
    (wire, redlock)
}

/// What this session owes, by the name that is asked for.
fn owes(wire: &Wire, of: u64) {
    wire.rule(move |session, request| match request {
        Request::Acquire { resource, .. } if session == of => match resource.as_str() {
            "silent" => Fate::Silence,
            "broken" => Fate::Breaks,
            _ => Fate::Runs,
        },
        _ => Fate::Runs,
    });
}

#[tokio::test(start_paused = true)]
async fn what_an_older_session_owes_does_not_close_the_next_one() {
    let (wire, redlock) = started().await;
    let old = wire.state().sessions;
    owes(&wire, old);
    // The old session leaves the first unanswered and breaks with the second.
    let silent = tokio::spawn({
        let redlock = redlock.clone();
        async move { redlock.try_acquire(&named("silent")).await.map(drop) }
    });
    sleep(BUDGET / 2).await;
    assert!(redlock.try_acquire(&named("broken")).await.is_err());
    // The next one is open before the first is given up.
    redlock.try_acquire(&named("well")).await.unwrap().release().await.unwrap();
    assert_eq!(wire.state().sessions, old + 1);
    assert!(silent.await.unwrap().is_err());
    for round in 0..20 {
        let start = Instant::now();
        let lease = redlock.try_acquire(&named("well")).await;
        let lease = lease.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(start.elapsed(), Duration::ZERO, "round {round}");
        lease.release().await.unwrap();
        sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(wire.state().sessions, old + 1);
}

/// So it is for the session that owes it, until it is given up.
#[tokio::test(start_paused = true)]
async fn a_session_that_owes_an_answer_is_asked_nothing_else() {
    let (wire, redlock) = started().await;
    let old = wire.state().sessions;
    owes(&wire, old);
    let before = wire.state().acquires.len();
    assert!(redlock.try_acquire(&named("silent")).await.is_err());
    assert!(redlock.try_acquire(&named("well")).await.is_err());
    assert_eq!(wire.state().acquires.len(), before + 1, "the second was not sent");
    sleep(Duration::from_secs(3)).await;
    assert!(redlock.try_acquire(&named("well")).await.is_ok());
    assert_eq!(wire.state().sessions, old + 1);
}

/// Asks for a resource whose answer is late when this returns, and comes soon.
async fn late_by_now(wire: &Wire, redlock: &Redlock) -> JoinHandle<Result<(), AcquireError>> {
    wire.rule(|_, request| match request {
        Request::Acquire { resource, .. } if *resource == named("slow") => Fate::After(BUDGET * 3 / 2),
        _ => Fate::Runs,
    });
    let redlock = redlock.clone();
    let late = tokio::spawn(async move { redlock.try_acquire(&named("slow")).await.map(drop) });
    sleep(BUDGET + BUDGET / 10).await;
    late
}

#[tokio::test(start_paused = true)]
async fn what_came_behind_a_late_answer_is_sent_after_it() {
    let (wire, redlock) = started().await;
    let late = late_by_now(&wire, &redlock).await;
    let start = Instant::now();
    let mut acquired = Vec::new();
    for name in ["a", "b", "c"] {
        acquired.push(redlock.try_acquire(&named(name)).await.unwrap());
    }
    assert_eq!(start.elapsed(), BUDGET * 3 / 2 - (BUDGET + BUDGET / 10));
    assert!(late.await.unwrap().is_err());
}

/// Who has given up leaves nothing behind that is sent after its release.
#[tokio::test(start_paused = true)]
async fn an_acquire_that_waits_is_withdrawn_by_its_release() {
    let (wire, redlock) = started().await;
    let late = late_by_now(&wire, &redlock).await;
    let before = wire.state().acquires.len();
    let gone = named("gone");
    assert!(timeout(BUDGET / 10, redlock.try_acquire(&gone)).await.is_err());
    assert!(late.await.unwrap().is_err());
    sleep(BUDGET * 10).await;
    assert_eq!(wire.state().acquires.len(), before, "the acquire was not sent");
    assert!(redlock.try_acquire(&gone).await.is_ok());
}

/// Half a connection costs the time in which it is tried, and is no sign that this client is overloaded. An
/// attempt is made again.
#[tokio::test(start_paused = true)]
async fn an_idle_session_that_hangs_is_not_taken_for_an_overload() {
    let (wire, redlock) = started().await;
    let lease = redlock.try_acquire(&named("kept")).await.unwrap();
    sleep(TTL / 4).await;
    wire.hang();
    let Err(RenewError::Failed { causes, .. }) = lease.renew().await else { panic!("renewed") };
    assert_eq!(causes[0].cause, Fault::TimedOut);
    // The next session is well.
    lease.renew().await.unwrap();
    sleep(TTL / 4).await;
    wire.hang();
    redlock.try_acquire(&named("well")).await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_lost_with_its_session_is_sent_again() {
    // The node may be out of reach for a moment, in which its refusals come at once.
    for (lost, refused) in [(Fate::Breaks, 0), (Fate::Silence, 0), (Fate::Breaks, 5)] {
        let (wire, redlock) = started().await;
        wire.state().refused = refused;
        let old = wire.state().sessions;
        wire.rule(move |session, request| match request {
            Request::Release { .. } if session == old => lost,
            _ => Fate::Runs,
        });
        drop(redlock.try_acquire(&named("well")).await.unwrap());
        sleep(Duration::from_secs(3)).await;
        drop(redlock.try_acquire(&named("well")).await.unwrap());
    }
}
