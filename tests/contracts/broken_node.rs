//! Nodes, and lock services on such nodes, that break one rule each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencing::lock::redlock::{Group, MemoryNode, Node, RedlockBuilder, Session};
use fencing::{Redlock, Resource};
use fencing_protocol::{Fault, Fleet, Mode, Nonce, Owner, Reply, Request, Token};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use tokio::time::sleep;

use crate::lock::{delay_contract, lapse_contract, lock_contract, resume_contract, shared_contract};
use crate::node::node_contract;
use crate::{breach, nodes, resource};
use support::clock::TokioClock;
use support::requests::ask_alone;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Flaw {
    PublishIgnoresOwner,
    PublishIgnoresNonce,
    VotesThoughNotAdmitted,
    LastNonceStays,
    NoQuarantine,
    ReleasesForAnybody,
    /// A renewal of what is there still sets a lock again.
    ResumesWhatIsMissing,
    NeverExpires,
    ForgetsCase,
    SharesNothing,
    NeverDrains,
    CountsNothing,
    GrantsWhatIsHeld,
    SharesAnother,
    /// A release overtakes the acquisition that it is to take back.
    OvertakesAcquire,
}

#[derive(Clone)]
struct FlawedNode {
    flaw: Flaw,
    node: MemoryNode,
    holders: Holders,
}

impl FlawedNode {
    fn new(flaw: Flaw, node: MemoryNode) -> FlawedNode {
        FlawedNode { flaw, node, holders: Arc::default() }
    }
}

type Holders = Arc<Mutex<HashMap<Resource, (Owner, Nonce)>>>;

struct FlawedSession {
    at: FlawedNode,
    session: Arc<dyn Session>,
}

impl Node for FlawedNode {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn open(&self, fleet: &Fleet, holder: &str) -> BoxFuture<'static, Result<Box<dyn Session>, Fault>> {
        let (at, opening) = (self.clone(), self.node.open(fleet, holder));
        Box::pin(async move {
            let session = opening.await?.into();
            Ok(Box::new(FlawedSession { at, session }) as Box<dyn Session>)
        })
    }
}

impl Session for FlawedSession {
    fn call(&self, requests: Group<Request>) -> BoxFuture<'static, Group<Result<Reply, Fault>>> {
        let calls = join_all(requests.into_iter().map(|request| self.call_one(request)));
        calls.map(Group::from_vec).boxed()
    }
}

impl FlawedSession {
    fn call_one(&self, mut request: Request) -> BoxFuture<'static, Result<Reply, Fault>> {
        let (FlawedNode { flaw, node, holders }, session) = (self.at.clone(), Arc::clone(&self.session));
        bend(flaw, &mut request, &holders.lock().unwrap());
        if let (Flaw::GrantsWhatIsHeld, Request::Acquire { resource, .. }) = (flaw, &request) {
            node.expire(resource);
        }
        Box::pin(async move {
            if let (Flaw::OvertakesAcquire, Request::Acquire { .. }) = (flaw, &request) {
                sleep(Duration::from_millis(5)).await;
            }
            let mut reply = ask_alone(&*session, request.clone()).await?;
            if flaw == Flaw::VotesThoughNotAdmitted && reply == Reply::NotAdmitted {
                reply = Reply::Reserved { nonce: Nonce(0) };
            }
            if flaw == Flaw::LastNonceStays
                && let (Request::Prepare { nonce: asked, from: None }, Reply::Prepared(prepared)) =
                    (&request, &mut reply)
            {
                prepared.state.nonce = *asked;
            }
            if let (Request::Acquire { resource, owner, .. }, Reply::Granted { nonce, stamp, .. }) =
                (request, &mut reply)
            {
                holders.lock().unwrap().insert(resource, (owner, *nonce));
                if flaw == Flaw::CountsNothing {
                    stamp.count = 1;
                }
            }
            Ok(reply)
        })
    }
}

/// The suite lets such a lock expire.
const SHORT: Duration = Duration::from_secs(1);

fn bend(flaw: Flaw, request: &mut Request, holders: &HashMap<Resource, (Owner, Nonce)>) {
    match (flaw, request) {
        (Flaw::PublishIgnoresOwner, Request::Publish { resource, owner, .. })
        | (Flaw::ReleasesForAnybody, Request::Release { resource, owner }) => {
            *owner = holders.get(resource).map_or(*owner, |(holder, _)| *holder);
        }
        (Flaw::PublishIgnoresNonce, Request::Publish { resource, nonce, .. }) => {
            *nonce = holders.get(resource).map_or(*nonce, |(_, granted)| *granted);
        }
        (Flaw::NoQuarantine, Request::Activate { quarantine, .. }) => *quarantine = Duration::ZERO,
        (Flaw::ResumesWhatIsMissing, request) => {
            if let Request::Resume { resource, owner, ttl, .. } = request.clone() {
                *request = Request::Renew { mode: Mode::Exclusive, resource, owner, token: Token::MAX, ttl };
            }
        }
        (Flaw::NeverDrains, Request::Drain { lasting, .. }) => *lasting = Duration::ZERO,
        (Flaw::SharesNothing, Request::Acquire { mode, .. }) => *mode = Mode::Exclusive,
        (Flaw::SharesAnother, Request::Acquire { mode: Mode::Shared, resource, .. }) => {
            *resource = Resource::new(format!("{resource}/shared")).unwrap();
        }
        (Flaw::NeverExpires, Request::Acquire { ttl, .. }) if *ttl < SHORT => *ttl *= 1000,
        (
            Flaw::ForgetsCase,
            Request::Acquire { resource, .. } | Request::Publish { resource, .. } | Request::Release { resource, .. },
        ) => *resource = Resource::new(resource.as_str().to_lowercase()).unwrap(),
        _ => {}
    }
}

#[tokio::test(start_paused = true)]
async fn flawed_nodes_are_found_out() {
    for (flaw, case) in [
        (Flaw::PublishIgnoresOwner, "publish for another owner"),
        (Flaw::PublishIgnoresNonce, "publish with another nonce"),
        (Flaw::VotesThoughNotAdmitted, "of a blank node"),
        (Flaw::LastNonceStays, "prepare again over another session"),
        (Flaw::NoQuarantine, "in quarantine: Acquire"),
        (Flaw::ReleasesForAnybody, "what has expired: Release"),
        (Flaw::ResumesWhatIsMissing, "what was never held: Resume"),
        (Flaw::NeverExpires, "acquire within the TTL of another"),
        (Flaw::ForgetsCase, "for the first time"),
        (Flaw::SharesNothing, "joins: Acquire"),
        (Flaw::NeverDrains, "share what drains"),
        (Flaw::OvertakesAcquire, "acquire and release at once"),
    ] {
        let node = MemoryNode::with_clock("memory", TokioClock::new());
        let breach = breach(node_contract(&FlawedNode::new(flaw, node))).await;
        assert!(breach.contains(case), "{flaw:?}: {breach}");
    }
}

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
async fn leases_that_end_late_or_early_are_found_out() {
    let lock = over(|node| FlawedNode::new(Flaw::ResumesWhatIsMissing, node)).renew(false).build().unwrap();
    let resumed = breach(resume_contract(&lock, &lock, crate::in_a_moment)).await;
    assert!(resumed.contains("resume what was released"), "{resumed}");
    let renewed = breach(lapse_contract(&over(|node| node).build().unwrap())).await;
    assert!(renewed.contains("lost() of a lease that is not renewed"), "{renewed}");
    // Its locks have no delay.
    let lock = over(|node| node).renew(false).build().unwrap();
    let freed = breach(delay_contract(&lock, &lock, &lock, Duration::from_secs(2))).await;
    assert!(freed.contains("acquire after the lock delay"), "{freed}");
}
