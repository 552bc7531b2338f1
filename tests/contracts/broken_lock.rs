//! Lock services that break one rule each.

use std::time::Duration;

use fencing::Redlock;
use fencing::lock::redlock::{MemoryNode, Node, RedlockBuilder};

use crate::broken_node::{Flaw, FlawedNode};
use crate::lock::{delay_contract, lapse_contract, lock_contract, resume_contract, shared_contract};
use crate::{breach, nodes, resource};
use support::clock::TokioClock;

/// A lock service over five nodes that are made of good ones.
fn over<N: Node>(made: impl Fn(MemoryNode) -> N) -> RedlockBuilder {
    let clock = TokioClock::new();
    Redlock::builder().nodes(nodes(&clock).into_iter().map(made)).clock(clock)
}

#[tokio::test(start_paused = true)]
async fn flawed_locks_are_found_out() {
    for (flaw, case) in [
        (Flaw::CountsNothing, "acquire after"),
        (Flaw::GrantsWhatIsHeld, "try_acquire what is held"),
        (Flaw::ForgetsCase, "while others are held"),
        (Flaw::OvertakesAcquire, "of an acquisition that was dropped"),
        (Flaw::SharesAnother, "share after"),
        (Flaw::NeverDrains, "acquire shared/turns: Held"),
    ] {
        let lock = over(|node| FlawedNode::new(flaw, node)).build().unwrap();
        let breach = match flaw {
            Flaw::SharesAnother | Flaw::NeverDrains => breach(shared_contract(&lock, &lock)).await,
            _ => breach(lock_contract(&lock, &lock)).await,
        };
        assert!(breach.contains(case), "{flaw:?}: {breach}");
    }
    let patient = over(|node| node).build().unwrap();
    // Its nodes are started.
    patient.acquire(&resource("warm")).await.unwrap().release().await.unwrap();
    let hasty = patient.with_wait(Duration::ZERO).unwrap();
    let breach = breach(lock_contract(&hasty, &hasty)).await;
    assert!(breach.contains("acquire wait: Held"), "{breach}");
}

#[tokio::test(start_paused = true)]
async fn leases_that_are_over_are_not_resumed() {
    let lock = over(|node| FlawedNode::new(Flaw::ResumesWhatIsMissing, node)).renew(false).build().unwrap();
    let breach = breach(resume_contract(&lock, &lock, crate::in_a_moment)).await;
    assert!(breach.contains("resume what was released"), "{breach}");
}

#[tokio::test(start_paused = true)]
async fn leases_that_are_renewed_do_not_lapse() {
    let breach = breach(lapse_contract(&over(|node| node).build().unwrap())).await;
    assert!(breach.contains("lost() of a lease that is not renewed"), "{breach}");
}

#[tokio::test(start_paused = true)]
async fn locks_that_are_free_before_their_delay_are_found_out() {
    let lock = over(|node| node).renew(false).build().unwrap();
    let breach = breach(delay_contract(&lock, &lock, &lock, Duration::from_secs(2))).await;
    assert!(breach.contains("acquire after the lock delay"), "{breach}");
}
