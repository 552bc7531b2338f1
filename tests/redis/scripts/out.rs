//! For how long a lock may be out: what a node reports of that closes others that have forgotten.

use crate::scripts::member::*;

const WAITING: &str = "{fencing}:waiting:invoice/42";
const HOUR: Duration = Duration::from_secs(3600);

async fn longest(member: &Member) -> i64 {
    match member.ask(Request::Read).await {
        Reply::State(state) => i64::try_from(state.longest.as_millis()).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}

#[tokio::test]
async fn a_lock_is_reported_for_as_long_as_it_lasts_renewals_too() {
    let (server, member) = admitted().await;
    assert_eq!(longest(&member).await, 0);
    let (token, _) = member.granted(OWNER, HOUR).await;
    let reported = longest(&member).await;
    assert!(reported >= left(&server, LOCK) && reported <= millis(HOUR * 9 / 8), "{reported}");
    assert_eq!(member.renew(OWNER, token, HOUR * 5).await, Reply::Renewed);
    let reported = longest(&member).await;
    assert!(reported >= left(&server, LOCK), "{reported}");
    assert!(reported > millis(HOUR * 4) && reported <= millis(HOUR * 5 * 9 / 8), "{reported}");
    // A shorter one takes nothing off, and a prepare reports the same.
    assert_granted(member.acquire(named("free"), OWNER, Duration::from_secs(1)).await);
    assert!(longest(&member).await >= left(&server, LOCK));
    let prepared = millis(member.prepare().await.state.longest);
    assert!(prepared >= left(&server, LOCK), "{prepared}");
}

/// Those of up to a minute are noted in another way.
#[tokio::test]
async fn short_locks_are_reported_too() {
    let (server, member) = admitted().await;
    let (token, _) = member.granted(OWNER, Duration::from_secs(30)).await;
    let reported = longest(&member).await;
    assert!(reported >= left(&server, LOCK) && reported <= 30_000 * 9 / 8, "{reported}");
    assert_eq!(member.renew(OWNER, token, Duration::from_secs(60)).await, Reply::Renewed);
    let reported = longest(&member).await;
    assert!(reported >= left(&server, LOCK), "{reported}");
    nothing_long_is_out(reported);
}

#[track_caller]
fn nothing_long_is_out(reported: i64) {
    assert!(reported <= 60_000 * 9 / 8, "{reported}");
}

/// A lease of a day that was released must not close a node for a day.
#[tokio::test]
async fn a_long_lock_that_was_released_is_not_out() {
    let (_server, member) = admitted().await;
    let (token, _) = member.granted(OWNER, HOUR * 24).await;
    assert_eq!(member.renew(OWNER, token, HOUR * 24).await, Reply::Renewed);
    assert_eq!(member.release(OWNER).await, Reply::Released);
    nothing_long_is_out(longest(&member).await);
}

/// The same where it was released for another caller of its process: no waiter is notified.
#[tokio::test]
async fn a_long_lock_that_was_handed_over_is_not_out() {
    let (server, member) = admitted().await;
    member.granted(OWNER, HOUR * 24).await;
    server.cli(&["ZADD", WAITING, "0", &format!("{:032x} 1", 7)]);
    let pass = |owner| Request::Shorten { resource: resource(), owner, rest: Duration::ZERO };
    assert_eq!(member.ask(pass(OTHER)).await, Reply::NotOwner);
    assert_eq!(member.ask(pass(OWNER)).await, Reply::Released);
    assert_eq!(server.cli(&["EXISTS", LOCK]), "0");
    nothing_long_is_out(longest(&member).await);
    assert_eq!(server.cli(&["ZCARD", WAITING]), "1");
    member.granted(OTHER, HOUR).await;
    assert_eq!(member.release(OTHER).await, Reply::Released);
    assert_eq!(server.cli(&["ZCARD", WAITING]), "0");
}

#[tokio::test]
async fn a_long_lock_that_is_held_is_out_though_others_were_released() {
    let (server, member) = admitted().await;
    member.acquire(named("free"), OWNER, HOUR).await;
    member.granted(OWNER, HOUR * 24).await;
    assert_eq!(member.release(OWNER).await, Reply::Released);
    let reported = longest(&member).await;
    assert!(reported >= left(&server, "{fencing}:lock:free"), "{reported}");
}

/// Of a lock that several share, the longest part is reported, and when it has left the next one.
#[tokio::test]
async fn a_long_part_that_was_released_is_not_out() {
    let (_server, member) = admitted().await;
    for (owner, ttl) in [(OWNER, HOUR * 24), (OTHER, HOUR)] {
        assert_granted(member.ask(share(owner, ttl)).await);
    }
    let reported = longest(&member).await;
    assert!(reported > millis(HOUR * 23), "{reported}");
    assert_eq!(member.release(OWNER).await, Reply::Released);
    let reported = longest(&member).await;
    assert!(reported > millis(HOUR / 2) && reported <= millis(HOUR), "{reported}");
    assert_eq!(member.release(OTHER).await, Reply::Released);
    nothing_long_is_out(longest(&member).await);
}

/// The clock of a node is set back by an hour: its keys last for an hour more, and the others must
/// not be closed for that.
#[tokio::test]
async fn a_clock_that_is_set_back_closes_nobody_for_longer_than_a_lock_lasts() {
    let server = crate::scripts::shim::shifted();
    let member = Member::in_era_7(&server).await;
    let ttl = Duration::from_secs(20);
    member.granted(OWNER, ttl).await;
    server.set_clock(-3600);
    assert!(left(&server, LOCK) > millis(HOUR), "the lock itself lasts");
    let reported = longest(&member).await;
    assert!(reported > 0 && reported <= millis(ttl * 9 / 8), "{reported}");
    // A longer lock after that is reported for as long as it lasts.
    assert_granted(member.acquire(named("free"), OWNER, ttl * 2).await);
    let reported = longest(&member).await;
    assert!(reported >= millis(ttl * 15 / 8) && reported <= millis(ttl * 2 * 9 / 8), "{reported}");
}
