//! Clients with different lists of nodes at one time, as in a rolling deployment.

use fencing::lock::redlock::MemoryNode;
use fencing::testing::FaultyNode;

use crate::fleet::*;

const TTL: Duration = Duration::from_secs(1);

/// A node is replaced: [a, b, c] beside [a, b, d]. One node of each list does not answer.
async fn replaced(old: &[&str], new: &[&str]) {
    let all: Vec<&str> = old.iter().chain(new).copied().collect();
    let node = |name: &&str| (name.to_string(), FaultyNode::new(MemoryNode::new(*name)));
    let nodes: std::collections::BTreeMap<_, _> = all.iter().map(node).collect();
    let service = |list: &[&str]| {
        let list: Vec<_> = list.iter().map(|name| nodes[*name].clone()).collect();
        Redlock::builder().nodes(list).ttl(TTL).wait(Duration::from_secs(5)).build().unwrap()
    };
    let (old_service, new_service) = (service(old), service(new));
    let mut last = old_service.acquire(&resource()).await.unwrap().token();
    // The new list gets no vote, and takes in no node, whichever does not answer.
    for cut in all.iter().copied().map(Some).chain([None]) {
        if let Some(name) = cut {
            nodes[name].faults().hang();
        }
        let error = new_service.try_acquire(&resource()).await.unwrap_err();
        // It is told whose nodes they are.
        let AcquireError::NoQuorum { granted: 0, causes, .. } = &error else { panic!("{error}") };
        let elsewhere =
            |fault: &Fault| matches!(fault, Fault::OtherFleet { members } if members == old);
        let told = causes.iter().any(|node| elsewhere(&node.cause));
        assert!(told || cut.is_some(), "{error}");
        let lease = old_service.acquire(&resource()).await.unwrap();
        assert!(lease.token() > last, "{} after {last}, without {cut:?}", lease.token());
        last = lease.token();
        lease.release().await.unwrap();
        if let Some(name) = cut {
            nodes[name].faults().resume();
        }
    }
    assert_eq!(old_service.health().await.granting, old.len());
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
