//! The lanes to the nodes. What waits for a node goes together, up to 64 requests in one call, and one that the node
//! refuses does not spoil the others. What was late before the task of its lane came to it is not sent.

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

/// The machine stands still between the submission and the sending. A re-admission relies on it that
/// what was asked is over after two budgets.
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
