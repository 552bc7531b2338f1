//! Attacks that once broke the order of the tokens, or made two leases valid at once, although no more nodes had
//! forgotten their state than the guarantee permits. docs/assurance/reliability.md describes each. Here: clients use
//! different lists of nodes at one time, as in a rolling deployment; and all servers restart without their data while a
//! lease is held, so a blank server need not be new.

use fencing::lock::redlock::MemoryNode;
use fencing::testing::FaultyNode;

use crate::fleet::*;

/// A node is replaced: [a, b, c] beside [a, b, d]. One node of each list does not answer.
async fn replaced(old: &[&str], new: &[&str]) {
    let all: Vec<&str> = old.iter().chain(new).copied().collect();
    let node = |name: &&str| (name.to_string(), FaultyNode::new(MemoryNode::new(*name)));
    let nodes: std::collections::BTreeMap<_, _> = all.iter().map(node).collect();
    let service = |list: &[&str], first| {
        let list: Vec<_> = list.iter().map(|name| nodes[*name].clone()).collect();
        let builder = Redlock::builder().nodes(list).ttl(TTL).node_budget(BUDGET);
        builder.wait(Duration::from_secs(60)).first_start(first).build().unwrap()
    };
    let (old_service, new_service) = (service(old, true), service(new, false));
    let mut last = old_service.acquire(&resource()).await.unwrap().token();
    // The new list gets no vote, and takes in no node, whichever does not answer.
    for cut in all.iter().copied().map(Some).chain([None]) {
        if let Some(name) = cut {
            nodes[name].faults().hang();
        }
        let error = new_service.try_acquire(&resource()).await.unwrap_err();
        // It is told whose nodes they are.
        let AcquireError::NoQuorum { granted: 0, causes, .. } = &error else { panic!("{error}") };
        let elsewhere = |fault: &Fault| matches!(fault, Fault::OtherFleet { members } if members == old);
        let told = causes.iter().any(|node| elsewhere(&node.cause));
        assert!(told || cut.is_some(), "{error}");
        let lease = old_service.acquire(&resource()).await.unwrap();
        assert!(lease.token() > last, "{} after {last}, without {cut:?}", lease.token());
        last = lease.token();
        let _ = lease.release().await;
        if let Some(name) = cut {
            nodes[name].faults().resume();
        }
    }
    until("all grant", async || old_service.health().await.granting == old.len()).await;
    assert_eq!(new_service.health().await.granting, 0);
}

#[tokio::test]
async fn another_list_gets_no_vote() {
    let lists = [
        ("a b c", "a b d"),
        ("a b c d e", "a b c d f"),
        ("a b c d e f g", "a b c d e f h"),
        ("a b c", "a b c d e"),
        ("a b c d e", "a b c"),
        ("a b c d e", "a b c d e f g"),
    ];
    for (old, new) in lists {
        replaced(&old.split(' ').collect::<Vec<_>>(), &new.split(' ').collect::<Vec<_>>()).await;
    }
}

/// Longer than a start takes, which waits for several budgets: else there is no quarantine.
const TTL: Duration = Duration::from_secs(20);
/// A busy machine answers within it.
const BUDGET: Duration = Duration::from_millis(500);

/// A client that has not said that the servers are new.
fn client(servers: &[RedisServer]) -> RedlockBuilder {
    service(servers).first_start(false).ttl(TTL).node_budget(BUDGET)
}

fn causes(error: AcquireError) -> Vec<Fault> {
    match error {
        AcquireError::NoQuorum { causes, .. } => causes.into_iter().map(|c| c.cause).collect(),
        // A busy machine has kept this client from asking.
        AcquireError::Overloaded { .. } => Vec::new(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn no_lease_is_granted_beside_one_that_the_servers_have_forgotten() {
    for nodes in [1, 3, 5] {
        let mut servers = servers(nodes);
        let first = client(&servers).first_start(true).renew(false).build().unwrap();
        let lease = first.acquire(&resource()).await.unwrap();
        servers.iter_mut().for_each(RedisServer::restart);
        let strict = client(&servers).strict(true).build().unwrap();
        until("it says that it is strict", async || {
            let found = causes(strict.try_acquire(&resource()).await.unwrap_err());
            found.len() > nodes / 2 && found.iter().all(|fault| *fault == Fault::Strict)
        })
        .await;
        let hasty = client(&servers).build().unwrap();
        let (mut quarantined, mut next) = (false, None);
        until("it is granted", async || {
            match hasty.try_acquire(&resource()).await {
                Ok(granted) => next = Some(granted),
                Err(error) => {
                    let closed = |fault: &Fault| matches!(fault, Fault::Quarantined(_));
                    quarantined |= causes(error).iter().any(closed);
                }
            }
            next.is_some()
        })
        .await;
        assert!(quarantined, "{nodes} nodes: no quarantine");
        let next = next.unwrap();
        assert!(lease.valid_for().is_zero(), "{nodes} nodes: two leases are valid at once");
        assert!(next.token() > lease.token());
    }
}
