//! The requests of a group are judged as they would be one by one.

use fencing::lock::redlock::MemoryNode;
use fencing_protocol::{ClientId, Nonce, Stamp};
use std::collections::BTreeMap;

use crate::scripts::full::fill;
use crate::scripts::member::{acquire as acquire_of, release as release_of, renew as renew_of, *};

/// Short enough that it needs no note of its own.
const SHORT: Duration = Duration::from_secs(50);

fn name(number: usize) -> Resource {
    named(&format!("invoice/{number}"))
}

fn acquire(number: usize, owner: Owner) -> Request {
    lasting(acquire_of(&name(number), owner), SHORT)
}

fn release(number: usize, owner: Owner) -> Request {
    release_of(&name(number), owner)
}

fn renew(number: usize, owner: Owner, stamp: Stamp) -> Request {
    lasting(renew_of(&name(number), owner, stamp), SHORT)
}

const NO_STAMP: Stamp = Stamp { era: 0, count: 1 };

/// Releases come first, then acquires, then renewals.
fn place(request: &Request) -> usize {
    match request {
        Request::Release { .. } => 0,
        Request::Acquire { .. } => 1,
        _ => 2,
    }
}

/// What two nodes say alike.
fn alike(reply: Result<Reply, Fault>) -> Reply {
    match reply.unwrap() {
        Reply::Held { shared, .. } => Reply::Held { remaining: SHORT, shared, holder: None },
        Reply::Granted { stamp, crowded, .. } => Reply::Granted { stamp, nonce: Nonce(0), crowded },
        other => other,
    }
}

#[tokio::test]
async fn a_group_is_answered_as_its_requests_would_be_alone() {
    let (server, member) = admitted().await;
    let alone = Member::open(&MemoryNode::new("memory"), &fleet(&server)).await;
    alone.admit(7).await;
    let mut random = fastrand::Rng::with_seed(34);
    let (mut stamps, mut granted, mut refused) = (BTreeMap::new(), 0, 0);
    for round in 0..600 {
        // Half of them alone.
        let most = if random.bool() { 2 } else { 12 };
        let mut requests: Vec<Request> = (0..random.usize(1..most))
            .map(|_| {
                let (number, owner) = (random.usize(0..8), Owner(random.u128(1..4)));
                let stamp = stamps.get(&(name(number), owner)).copied().unwrap_or(NO_STAMP);
                match random.usize(0..4) {
                    0 => release(number, owner),
                    1 => renew(number, owner, stamp),
                    _ => acquire(number, owner),
                }
            })
            .collect();
        // A group says to both of two that release one lock for one owner that it was released.
        requests.sort_by_key(|request| (place(request), format!("{request:?}")));
        requests.dedup();
        random.shuffle(&mut requests);
        let answers = member.ask_each(requests.clone()).await;
        let mut answers: Vec<_> = requests.drain(..).zip(answers).collect();
        answers.sort_by_key(|(request, _)| place(request));
        for (request, answer) in answers {
            let (answer, expected) = (alike(answer), alike(alone.try_ask(request.clone()).await));
            assert_eq!(answer, expected, "round {round}: {request:?}");
            match (&request, answer) {
                (Request::Acquire { resource, owner, .. }, Reply::Granted { stamp, .. }) => {
                    stamps.insert((resource.clone(), *owner), stamp);
                    granted += 1;
                }
                (_, Reply::Held { .. } | Reply::NotOwner) => refused += 1,
                _ => {}
            }
        }
    }
    assert!(granted > 100 && refused > 100, "{granted} granted, {refused} refused");
}

#[tokio::test]
async fn a_lock_that_is_none_fails_alone() {
    let (server, member) = admitted().await;
    member.ask_each(vec![acquire(0, ALICE)]).await;
    server.cli(&["RPUSH", "{fencing}:lock:invoice/1", "a list"]);
    let group = vec![release(0, ALICE), release(1, ALICE), acquire(1, BOB), acquire(2, BOB), acquire(0, BOB)];
    let answers = member.ask_each(group).await;
    assert_eq!(answers[0], Ok(Reply::Released));
    for failed in &answers[1..3] {
        assert!(matches!(failed, Err(Fault::Refused(why)) if why.contains("WRONGTYPE")), "{failed:?}");
    }
    for granted in &answers[3..] {
        assert!(matches!(granted, Ok(Reply::Granted { .. })), "{granted:?}");
    }
}

#[tokio::test]
async fn a_release_alone_notifies_who_waits() {
    let (server, member) = admitted().await;
    member.ask_each(vec![acquire(0, ALICE)]).await;
    let node = RedisNode::new(&server.url(), "fencing").unwrap();
    let client = ClientId(7);
    let mut listener = node.listen(client).await.unwrap();
    listener.wait(&name(0), 1, Duration::ZERO);
    listener.next().await.unwrap();
    let answers = member.ask_each(vec![release(0, ALICE)]).await;
    assert_eq!(answers, [Ok(Reply::ReleasedAndNotified { client })]);
}

/// What is noted ends before the lock: by age, or by its value, where a clock was set back. A start waits for the lock.
#[tokio::test]
async fn a_lock_alone_that_ends_later_than_any_is_noted() {
    let (server, member) = admitted().await;
    for (value, lasts) in [("60000", "20000"), ("20000", "60000")] {
        for request in [acquire(0, ALICE), release(0, ALICE)] {
            member.ask_each(vec![request]).await;
        }
        server.cli(&["SET", "{fencing}:latest", value, "PX", lasts]);
        member.ask_each(vec![acquire(0, ALICE)]).await;
        let noted = ["GET", "PTTL"].map(|it| server.cli(&[it, "{fencing}:latest"]).parse::<u64>().unwrap());
        assert!(noted.iter().all(|noted| *noted > 30_000), "{value} {lasts}: {noted:?}");
        member.ask_each(vec![release(0, ALICE)]).await;
    }
}

/// The requests of a group that need not come again are refused, and no lock stays behind.
#[tokio::test]
async fn releases_of_a_group_come_again_with_their_script() {
    let (server, member) = admitted().await;
    member.ask_each(vec![acquire(0, ALICE), acquire(1, ALICE)]).await;
    server.cli(&["SCRIPT", "FLUSH"]);
    let answers = member.ask_each(vec![release(0, ALICE), acquire(2, BOB), release(1, ALICE)]).await;
    assert_eq!((&answers[0], &answers[2]), (&Ok(Reply::Released), &Ok(Reply::Released)));
    assert!(matches!(&answers[1], Err(Fault::NotNow(why)) if why.contains("lost the scripts")));
    assert_eq!(server.cli(&["KEYS", "{fencing}:lock:*"]), "");
}

/// Asks for them as a group, and then one by one.
async fn asked_each_way(member: &Member, requests: Vec<Request>) -> Vec<Result<Reply, Fault>> {
    let mut answers = member.ask_each(requests.clone()).await;
    for request in requests {
        answers.extend(member.ask_each(vec![request]).await);
    }
    answers
}

/// Each of these keeps a node from something, while all else is as usual: a short lock was granted a moment ago.
#[tokio::test]
async fn what_closes_a_node_closes_it_to_groups() {
    let (server, member) = admitted().await;
    let one_of_each = || vec![release(0, ALICE), acquire(1, BOB), renew(2, ALICE, NO_STAMP)];
    let first = member.ask_each((0..3).map(|number| acquire(number, ALICE)).collect()).await;
    assert!(first.iter().all(|it| matches!(it, Ok(Reply::Granted { .. }))), "{first:?}");
    member.ask_each(vec![release(1, ALICE)]).await;

    // It belongs to another life of the server, or to another fleet.
    let marker = server.cli(&["HGET", MEMORY, "admitted"]);
    let (life, _) = marker.split_once(' ').unwrap();
    for other in ["another-life a", &format!("{life} another-fleet")] {
        server.cli(&["HSET", MEMORY, "admitted", other]);
        for answer in asked_each_way(&member, one_of_each()).await {
            let refused = matches!(answer, Ok(Reply::NotAdmitted | Reply::OtherFleet(_)));
            assert!(refused, "{other}: {answer:?}");
        }
    }
    server.cli(&["HSET", MEMORY, "admitted", &marker]);

    // It is in quarantine. Whoever has a lock may give it back.
    server.cli(&["SET", QUARANTINE, "60000", "PX", "60000"]);
    let answers = member.ask_each(one_of_each()).await;
    assert_eq!(answers[0], Ok(Reply::Released));
    let alone = asked_each_way(&member, one_of_each()[1..].to_vec()).await;
    for answer in answers[1..].iter().chain(&alone) {
        assert!(matches!(answer, Ok(Reply::Quarantined { .. })), "{answer:?}");
    }
    server.cli(&["DEL", QUARANTINE]);

    // It is not noted that the fleet was in use: a start would not wait for its locks.
    for request in [acquire(3, BOB), acquire(3, ALICE), renew(2, ALICE, NO_STAMP)] {
        member.ask_each(vec![release(3, BOB)]).await;
        server.cli(&["HDEL", MEMORY, "granted"]);
        member.ask_each(vec![request]).await;
        assert_eq!(server.cli(&["HGET", MEMORY, "granted"]), "1");
    }

    // The count of the resource has run out, or the node has too many counts.
    server.cli(&["HSET", MEMORY, "c:invoice/4", "999999"]);
    for answer in asked_each_way(&member, vec![acquire(4, BOB)]).await {
        assert_eq!(answer, Ok(Reply::Exhausted));
    }
    fill(&server, 100_000);
    for requests in [vec![acquire(5, BOB)], vec![acquire(6, BOB), acquire(7, BOB)]] {
        for answer in member.ask_each(requests).await {
            assert!(matches!(answer, Ok(Reply::Granted { crowded: true, .. })), "{answer:?}");
        }
    }
}
