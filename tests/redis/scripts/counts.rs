//! Counts that pile up: the node says so, and they are dropped in a larger era.

use fencing_protocol::{Readmission, Readmit, ReadmitError, Stamp};

use crate::scripts::member::*;
use crate::scripts::shim;

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
    match member.acquire(named(name), owner, TTL).await {
        Reply::Granted { crowded, .. } => crowded,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_crowded_node_says_so_and_only_then() {
    let (server, member) = admitted().await;
    fill(&server, 99_900);
    assert!(!said(&member, "first", OWNER).await);
    assert!(!member.prepare().await.crowded);
    // A client that takes it for crowded does not collect it.
    assert_eq!(member.collect(8).await, Reply::Activated);
    assert_eq!(field(&server, "era"), 7);
    fill(&server, 100_000);
    assert!(said(&member, "second", OWNER).await);
    assert!(said(&member, "second", OWNER).await, "asked again");
    assert!(member.prepare().await.crowded);
}

#[tokio::test]
async fn a_collection_drops_counts_and_nothing_else() {
    let (server, member) = admitted().await;
    let (token, nonce) = member.granted(OWNER, TTL).await;
    let reserved = member.ask(Request::Reserve { era: 30, memory: None }).await;
    assert_eq!(reserved, Reply::Reserved { nonce });
    fill(&server, 100_000);
    assert_eq!(member.collect(8).await, Reply::Activated);
    assert!(fields(&server) < 10, "{}", fields(&server));
    let prepared = member.prepare().await;
    assert!(prepared.admitted && !prepared.crowded, "{prepared:?}");
    // It has granted, so that it is not blank: what it has promised and locked stays.
    assert!(!prepared.blank);
    assert_eq!((prepared.state.era, prepared.state.reserved), (8, 30));
    assert_eq!(prepared.state.nonce, nonce);
    let held = member.acquire(resource(), OTHER, TTL).await;
    assert!(matches!(held, Reply::Held { .. }), "{held:?}");
    assert_eq!(member.renew(OWNER, token, TTL).await, Reply::Renewed);
    assert!(!said(&member, "other", OTHER).await);
}

/// Both have seen that the node is crowded before either collects, and the second had to take a
/// larger era as the first had reserved its own.
#[tokio::test]
async fn of_two_collections_that_race_one_is_done() {
    let (server, member) = admitted().await;
    fill(&server, 100_000);
    assert_eq!(member.collect(8).await, Reply::Activated);
    assert!(!said(&member, "other", OTHER).await);
    assert_eq!(member.collect(9).await, Reply::Activated);
    assert_eq!(field(&server, "era"), 8);
    assert_eq!(server.cli(&["HGET", MEMORY, "c:other"]), "1", "what was counted since stays");
}

#[tokio::test]
async fn a_count_that_ran_out_is_collected() {
    let (server, member) = admitted().await;
    let field_of = format!("c:{}", resource());
    server.cli(&["HSET", MEMORY, &field_of, &Stamp::MAX_COUNT.to_string()]);
    assert_eq!(member.acquire(resource(), OWNER, TTL).await, Reply::Exhausted);
    assert!(member.prepare().await.crowded);
    assert_eq!(member.collect(8).await, Reply::Activated);
    assert!(!member.prepare().await.crowded);
    let (token, _) = member.granted(OWNER, TTL).await;
    assert_eq!(Stamp::from(token), Stamp { era: 8, count: 1 });
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
            let reply: Result<Reply, Fault> = member.try_ask(request).await;
            readmit.on_reply(phase, node, reply);
        }
        if let Some(outcome) = readmit.outcome() {
            return outcome;
        }
    }
}

/// After a loss of all nodes eras come from their clocks: none may be ahead of those.
#[tokio::test]
async fn no_era_is_begun_ahead_of_the_clock_of_the_node() {
    let server = shim::shifted();
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
