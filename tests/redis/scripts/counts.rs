//! Counts that pile up: the node says so, and they are dropped in a larger era.

use fencing_protocol::{Readmission, Readmit, ReadmitError};

use crate::scripts::member::*;

/// Adds the counts of this many resources.
pub fn fill(server: &RedisServer, counts: u32) {
    let script = "for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], 'c:r' .. i, 1) end";
    server.cli(&["EVAL", script, "1", MEMORY, &counts.to_string()]);
}

pub fn field(server: &RedisServer, name: &str) -> u64 {
    server.cli(&["HGET", MEMORY, name]).parse().unwrap_or_default()
}

fn fields(server: &RedisServer) -> u64 {
    server.cli(&["HLEN", MEMORY]).parse().unwrap()
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
    assert_eq!(member.collect(8).await, Reply::Activated);
    assert_eq!(field(&server, "era"), 7);
    fill(&server, 100_000);
    assert!(said(&member, "second", ALICE).await);
    assert!(said(&member, "second", ALICE).await, "asked again");
    assert!(member.prepare().await.crowded);
}

/// One client's collection of a fleet of one node, step by step.
async fn collect(member: &Member) -> Result<(), ReadmitError> {
    let order = Readmission {
        target: 0,
        collect: true,
        nonce: Nonce(1),
        longest: Duration::ZERO,
        strict: false,
        assume_no_locks: false,
    };
    let mut readmit = Readmit::new(1, order);
    loop {
        while let Some((node, request)) = readmit.next_request() {
            let phase = readmit.phase();
            readmit.on_reply(phase, node, member.try_ask(request).await);
        }
        if let Some(outcome) = readmit.outcome() {
            return outcome;
        }
    }
}

/// After a loss of all nodes eras come from their clocks: none may be ahead of those.
#[tokio::test]
async fn no_era_is_begun_ahead_of_the_clock_of_the_node() {
    let server = RedisServer::shifted(IN_MEMORY);
    let member = Member::alone(&server).await;
    let now = member.prepare().await.clock.as_secs();
    member.admit(now).await;
    fill(&server, 100_000);
    server.set_clock(-3600);
    match collect(&member).await {
        Err(ReadmitError::AheadOfClock { era, clock }) => {
            assert!(era == now + 1 && clock < now, "{era} and {clock}, not {now}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(field(&server, "era"), now);
    assert!(fields(&server) > 100_000);
    server.set_clock(3600);
    assert_eq!(collect(&member).await, Ok(()));
    assert_eq!(field(&server, "era"), now + 1);
    assert!(fields(&server) < 10);
}
