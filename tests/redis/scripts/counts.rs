//! Counts that pile up: the node says so. The contract of a node drops them in a larger era.

use crate::scripts::member::*;

/// Adds the counts of this many resources.
pub fn fill(server: &RedisServer, counts: u32) {
    let script = "for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], 'c:r' .. i, 1) end";
    server.cli(&["EVAL", script, "1", MEMORY, &counts.to_string()]);
}

/// Whether a grant says that the node is crowded.
async fn said(member: &Member, name: &str, owner: Owner) -> bool {
    match member.ask(acquire(&named(name), owner)).await {
        Reply::Granted { crowded, .. } => crowded,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_crowded_node_says_so_and_only_then() {
    let (server, member) = admitted().await;
    fill(&server, 99_900);
    assert!(!said(&member, "first", ALICE).await);
    assert!(!member.prepare().await.crowded);
    // A client that takes it for crowded does not collect it.
    assert_eq!(member.activate(8, true, Duration::ZERO).await, Reply::Activated);
    assert_eq!(server.cli(&["HGET", MEMORY, "era"]), "7");
    fill(&server, 100_000);
    assert!(said(&member, "second", ALICE).await);
    assert!(said(&member, "second", ALICE).await, "asked again");
    assert!(member.prepare().await.crowded);
}
