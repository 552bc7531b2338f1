//! The lanes to the nodes. What waits for a node goes together, up to 64 requests in one call, and one that the node
//! refuses does not spoil the others. What was late before the task of its lane came to it is not sent. What waits
//! while a node owes an answer is sent when the answer comes in time for it, and refused otherwise; releases do not
//! wait. What one session owes is not booked on the next.

use std::pin::Pin;

use fencing::lock::RenewError;
use futures_util::future::join_all;

use crate::driver::fleet::*;
use crate::driver::wire::{Fate, Wire};

/// Begins something, and lets the time of its requests pass before a lane has run.
async fn late<F: Future>(act: F) -> Pin<Box<F>> {
    let begun = begun(act);
    tokio::time::advance(BUDGET).await;
    begun
}

/// The machine stops between submission and sending. Re-admission relies on requests being over after two budgets.
#[tokio::test(start_paused = true)]
async fn an_acquire_past_its_time_is_not_sent() {
    let (fleet, redlock) = Fleet::with_client(3).await;
    let resource = resource();
    let attempt = late(redlock.try_acquire(&resource)).await;
    settle().await;
    fleet.assert_ran(&[]);
    // This client was late, and no node: it asks again, and nothing of the first is sent behind that.
    let lease = attempt.await.unwrap();
    settle().await;
    fleet.assert_ran(&["release", "acquire"]);
    drop(lease);
    // So it is for several at once.
    let (brief, several) = (redlock.with_wait(Duration::ZERO).unwrap(), ["a", "b"].map(named));
    let lease = late(brief.acquire_all(&several)).await.await.unwrap();
    assert_eq!(lease.sequencers().len(), 2);
}

/// A renewal is not made again: the caller learns that no node is to blame.
#[tokio::test(start_paused = true)]
async fn a_renewal_past_its_time_is_not_sent_and_blames_no_node() {
    let (fleet, redlock) = Fleet::with_client(3).await;
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    settle().await;
    let renewal = late(lease.renew()).await;
    let Err(RenewError::Failed { causes, .. }) = renewal.await else { panic!("renewed") };
    assert!(causes.len() >= 3, "{causes:?}");
    assert!(causes.iter().all(|it| it.cause == Fault::Unsent && it.cause.is_own()), "{causes:?}");
    fleet.assert_ran(&["acquire"]);
}

/// The machine stands still after the nodes have granted. By now one of them may have forgotten its grant and
/// be back: a re-admission relies on it that no answer counts after two budgets.
#[tokio::test(start_paused = true)]
async fn a_vote_past_its_time_does_not_count() {
    let (fleet, redlock) = Fleet::with_client(3).await;
    let resource = resource();
    let attempt = begun(redlock.try_acquire(&resource));
    settle().await;
    fleet.assert_ran(&["acquire"]);
    tokio::time::advance(2 * BUDGET + Duration::from_millis(1)).await;
    // It was this client that stood still, so it asks again. What was granted is taken back before that.
    let lease = attempt.await.unwrap();
    settle().await;
    fleet.assert_ran(&["acquire", "release", "acquire"]);
    drop(lease);
}

#[tokio::test(start_paused = true)]
async fn a_release_past_its_time_is_sent() {
    let (fleet, redlock) = Fleet::with_client(3).await;
    let lease = redlock.try_acquire(&resource()).await.unwrap();
    settle().await;
    let _release = late(lease.release()).await;
    settle().await;
    fleet.assert_ran(&["acquire", "release"]);
    assert!(redlock.try_acquire(&resource()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_refuses_is_sent_no_release() {
    let fleet = Fleet::started().await;
    let (holder, other) = (fleet.connected().await, fleet.connected().await);
    let lease = holder.try_acquire(&resource()).await.unwrap();
    assert!(other.try_acquire(&resource()).await.is_err());
    settle().await;
    // A majority decides: the answers of the others may not have been seen.
    let spared = fleet.faults.iter().filter(|faults| ran(faults) == ["acquire", "acquire"]);
    assert!(spared.count() >= 2);
    drop(lease);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_gets_no_turn_is_neither_held_nor_without_a_quorum() {
    let fleet = Fleet::started().await;
    let ttl = BUDGET * 4;
    let redlock = fleet.service().ttl(ttl).drift(BUDGET / 50).build().unwrap();
    fleet.faults.iter().for_each(|faults| faults.delay_replies(BUDGET / 2));
    let attempts = (0..2000).map(|number| {
        let redlock = redlock.clone();
        let resource = named(&number.to_string());
        tokio::spawn(async move { redlock.try_acquire(&resource).await.map(std::mem::forget) })
    });
    let mut overloaded = 0;
    for attempt in attempts.collect::<Vec<_>>() {
        match attempt.await.unwrap() {
            Ok(()) => {}
            Err(AcquireError::Overloaded { .. }) => overloaded += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(overloaded > 1000, "{overloaded}");
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_node_goes_together() {
    let clock = TokioClock::new();
    let nodes = ["a", "b", "c"].map(|name| Wire::new(MemoryNode::with_clock(name, clock.clone())));
    for node in &nodes {
        node.rule(|_, request| match request {
            Request::Acquire { resource, .. } if *resource == named("invoice/7") => Fate::Full,
            _ => Fate::Runs,
        });
    }
    let redlock = Redlock::builder().nodes(nodes.clone()).clock(clock).ttl(TTL).build().unwrap();
    redlock.acquire(&named("warm")).await.unwrap().release().await.unwrap();
    let most = || nodes.iter().flat_map(|node| std::mem::take(&mut node.state().calls)).max();
    most();
    let names: Vec<Resource> = (0..200).map(|number| named(&format!("invoice/{number}"))).collect();
    let attempts = join_all(names.iter().map(|name| redlock.try_acquire(name))).await;
    let (leases, refused): (Vec<_>, Vec<_>) = attempts.into_iter().partition(Result::is_ok);
    assert_eq!((leases.len(), refused.len(), most()), (199, 1, Some(64)));
    // So do renewals.
    sleep(TTL * 5).await;
    assert_eq!(most(), Some(64));
    assert!(leases.iter().flatten().all(|lease| !lease.valid_for().is_zero()));
    drop(leases);
    redlock.settle().await;
    assert_eq!(most(), Some(64));
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

/// Half a connection costs the time in which it is tried, and is no sign of an overload here. An attempt is made again.
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
