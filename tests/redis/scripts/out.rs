//! For how long a lock may be out: what a node reports of that closes others that have forgotten. A node that an
//! operator has closed by hand has a quarantine key that never expires.

use crate::scripts::member::*;

const WAITING: &str = "{fencing}:waiting:invoice/42";
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}

/// What the node reports, in milliseconds: an eighth above this time at most.
async fn out(member: &Member, most: Duration) -> i64 {
    let Reply::State(state) = member.ask(Request::Read).await else { panic!("no state") };
    assert!(state.longest <= most * 9 / 8, "{:?}, not {most:?}", state.longest);
    millis(state.longest)
}

async fn nothing_long_is_out(member: &Member) {
    out(member, MINUTE).await;
}

/// Those of up to a minute are noted in another way.
#[tokio::test]
async fn a_lock_is_reported_for_as_long_as_it_lasts_renewals_too() {
    for (granted, renewed) in [(HOUR, HOUR * 5), (MINUTE / 2, MINUTE)] {
        let (server, member) = admitted().await;
        out(&member, Duration::ZERO).await;
        let (stamp, _) = member.granted(ALICE, granted).await;
        assert!(out(&member, granted).await >= left(&server, LOCK));
        assert_eq!(member.renew(ALICE, stamp, renewed).await, Reply::Renewed);
        assert!(left(&server, LOCK) > millis(renewed) / 2);
        assert!(out(&member, renewed).await >= left(&server, LOCK));
        // A shorter one takes nothing off, and a prepare reports the same.
        let shorter = lasting(acquire(&named("free"), ALICE), Duration::from_secs(1));
        assert_granted(member.ask(shorter).await);
        assert!(out(&member, renewed).await >= left(&server, LOCK));
        assert!(millis(member.prepare().await.state.longest) >= left(&server, LOCK));
    }
}

/// A lease of a day that was released must not close a node for a day, also where it was released for another caller
/// of its process: no waiter is notified.
#[tokio::test]
async fn a_long_lock_that_was_handed_over_is_not_out() {
    let (server, member) = admitted().await;
    member.granted(ALICE, HOUR * 24).await;
    server.cli(&["ZADD", WAITING, "0", &format!("{:032x} 1", 7)]);
    let pass = |owner| shorten(&resource(), owner, Duration::ZERO);
    assert_eq!(member.ask(pass(BOB)).await, Reply::NotOwner);
    assert_eq!(member.ask(pass(ALICE)).await, Reply::Released);
    assert_eq!(server.cli(&["EXISTS", LOCK]), "0");
    nothing_long_is_out(&member).await;
    assert_eq!(server.cli(&["ZCARD", WAITING]), "1");
    member.granted(BOB, HOUR).await;
    assert_eq!(member.release(BOB).await, Reply::Released);
    nothing_long_is_out(&member).await;
    assert_eq!(server.cli(&["ZCARD", WAITING]), "0");
}

#[tokio::test]
async fn a_long_lock_that_is_held_is_out_though_others_were_released() {
    let (server, member) = admitted().await;
    member.ask(lasting(acquire(&named("free"), ALICE), HOUR)).await;
    member.granted(ALICE, HOUR * 24).await;
    assert_eq!(member.release(ALICE).await, Reply::Released);
    assert!(out(&member, HOUR * 24).await >= left(&server, "{fencing}:lock:free"));
}

/// Of a lock that several share, the longest part is reported, and when it has left the next one.
#[tokio::test]
async fn a_long_part_that_was_released_is_not_out() {
    let (_server, member) = admitted().await;
    for (owner, ttl) in [(ALICE, HOUR * 24), (BOB, HOUR)] {
        assert_granted(member.ask(lasting(share(&resource(), owner), ttl)).await);
    }
    assert!(out(&member, HOUR * 24).await >= millis(HOUR * 23));
    assert_eq!(member.release(ALICE).await, Reply::Released);
    assert!(out(&member, HOUR * 8 / 9).await >= millis(HOUR / 2));
    assert_eq!(member.release(BOB).await, Reply::Released);
    nothing_long_is_out(&member).await;
}

/// The clock of a node is set back by an hour: its keys last an hour longer, and others must not be closed for that.
#[tokio::test]
async fn a_clock_that_is_set_back_closes_nobody_for_longer_than_a_lock_lasts() {
    let server = RedisServer::shifted(IN_MEMORY);
    let member = Member::in_era_7(&server).await;
    let ttl = Duration::from_secs(20);
    member.granted(ALICE, ttl).await;
    server.set_clock(-3600);
    assert!(left(&server, LOCK) > millis(HOUR), "the lock itself lasts");
    assert!(out(&member, ttl).await >= 1);
    // A longer lock after that is reported for as long as it lasts.
    assert_granted(member.ask(lasting(acquire(&named("free"), ALICE), ttl * 2)).await);
    assert!(out(&member, ttl * 2).await >= millis(ttl * 15 / 8));
}

/// It says that it is closed for long: nobody should come back at once.
#[track_caller]
fn closed_for(reply: Reply, least: Duration) {
    let closed = matches!(reply, Reply::Quarantined { remaining } if remaining > least);
    assert!(closed, "{reply:?}");
}

#[tokio::test]
async fn a_quarantine_without_an_end_is_one() {
    let (server, member) = admitted().await;
    let (stamp, nonce) = member.granted(ALICE, TTL).await;
    assert_eq!(server.cli(&["SET", QUARANTINE, "1"]), "OK");
    let (free, hour) = (named("free"), Duration::from_secs(3600));
    closed_for(member.ask(acquire(&free, BOB)).await, hour);
    closed_for(member.ask(acquire(&resource(), ALICE)).await, hour);
    closed_for(member.renew(ALICE, stamp, TTL).await, hour);
    let report = member.ask(Request::Inspect).await;
    assert!(matches!(&report, Reply::Report { quarantine, .. } if *quarantine > Some(hour)));
    // A holder can still let go.
    assert_eq!(member.release(ALICE).await, Reply::Released);
    assert_eq!(member.ask(Request::Open { nonce }).await, Reply::Opened);
    assert_granted(member.ask(acquire(&free, BOB)).await);
}

/// An operator closes a node that has not been started, for good or for longer than a start takes.
#[tokio::test]
async fn a_start_shortens_no_quarantine() {
    let server = RedisServer::start();
    for (options, least) in [(&[][..], 3600), (&["PX", "600000"], 60)] {
        server.cli(&["FLUSHALL"]);
        let member = Member::alone(&server).await;
        assert_eq!(server.cli(&[&["SET", QUARANTINE, "1"], options].concat()), "OK");
        let started = member.activate(7, false, Duration::from_secs(1)).await;
        assert_eq!(started, Reply::Activated);
        closed_for(member.ask(acquire(&resource(), ALICE)).await, Duration::from_secs(least));
    }
}
