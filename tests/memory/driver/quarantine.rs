//! For how long a node that forgot stays closed: until no lock can be out that it knew of.

use crate::driver::fleet::*;

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

/// For how long each node is still closed.
async fn closed(redlock: &Redlock) -> Vec<Duration> {
    // The first question finds who has forgotten, and has it brought back.
    for _ in 0..20 {
        redlock.health().await;
        redlock.settle().await;
        settle().await;
        sleep(Duration::from_millis(200)).await;
    }
    let health = redlock.health().await;
    assert_eq!(health.nodes.len(), 3, "{health:?}");
    health.nodes.iter().map(|node| node.quarantine.unwrap_or_default()).collect()
}

/// Servers that all come up at one time without data may have granted what the client asks for.
#[tokio::test(start_paused = true)]
async fn a_new_start_waits_for_the_longest_ttl_of_the_client() {
    let (fleet, redlock) = Fleet::with_client(3).await;
    fleet.nodes.iter().for_each(|node| node.restart());
    let closed_for = closed(&redlock).await;
    assert!(closed_for.iter().all(|left| *left < TTL), "{closed_for:?}");
    sleep(TTL).await;
    assert_eq!(closed(&redlock).await, [Duration::ZERO; 3]);
    // Another service over the same nodes shares their re-admission task.
    let long = redlock.with_ttl(HOUR).unwrap();
    drop(long);
    fleet.nodes.iter().for_each(|node| node.restart());
    let closed_for = closed(&redlock).await;
    assert!(closed_for.iter().all(|left| *left > HOUR - MINUTE), "{closed_for:?}");
    assert!(closed_for.iter().all(|left| *left <= HOUR), "{closed_for:?}");
}

/// It may have granted a lock before, however long the others have been up. The lock-delay counts, too, and so does what
/// an operator starts again.
#[tokio::test(start_paused = true)]
async fn a_new_start_waits_for_the_server_that_came_up_last_and_for_the_lock_delay() {
    for case in ["ttl", "lock-delay", "lock-delay, by hand"] {
        let fleet = Fleet::started().await;
        sleep(HOUR * 2).await;
        fleet.nodes[0].restart();
        fleet.nodes[1..].iter().for_each(|node| node.flush());
        let service = fleet.service();
        let service = if case == "ttl" { service.ttl(HOUR) } else { service.lock_delay(HOUR) };
        let redlock = service.build().unwrap();
        if case.ends_with("by hand") {
            assert_eq!(redlock.operator().admit().await.causes, []);
        }
        let closed = closed(&redlock).await;
        assert!(closed.iter().all(|left| *left > HOUR - MINUTE), "{case}: {closed:?}");
    }
}

/// A request that was on its way when the node forgot has come by then, or was given up.
#[tokio::test(start_paused = true)]
async fn the_others_are_asked_for_a_promise_after_two_budgets() {
    let fleet = Fleet::started().await;
    let promises = || {
        let log = fleet.faults[0].log();
        log.iter().filter(|(request, _)| matches!(request, Request::Reserve { .. })).count()
    };
    let before = promises();
    fleet.nodes[1].restart();
    let redlock = fleet.connected_to(2).await;
    sleep(BUDGET * 3 / 2).await;
    assert_eq!(promises(), before);
    sleep(BUDGET).await;
    assert_eq!(promises(), before + 1);
    drop(redlock);
}

/// A lease of an hour is out, and clients with a short TTL bring a node back. One that is renewed counts from its
/// renewal.
#[tokio::test(start_paused = true)]
async fn a_node_that_forgot_is_closed_until_the_leases_of_others_have_ended() {
    for (renews, minutes) in [(false, 20), (true, 45)] {
        let fleet = Fleet::started().await;
        let other = fleet.service().ttl(HOUR).renew(renews).build().unwrap();
        let lease = other.try_acquire(&resource()).await.unwrap();
        sleep(MINUTE * minutes).await;
        assert_eq!(lease.valid_for() > MINUTE * 50, renews);
        match renews {
            true => fleet.nodes[1].flush(),
            false => fleet.nodes[1].restart(),
        }
        let closed = closed(&fleet.connected_to(2).await).await;
        assert_eq!((closed[0], closed[2]), (Duration::ZERO, Duration::ZERO));
        assert!(closed[1] >= lease.valid_for(), "{closed:?}, out for {:?}", lease.valid_for());
        assert!(closed[1] <= HOUR, "{closed:?}");
    }
}

/// Nor does a lease of a day that was released an hour ago close a node for the rest of the day.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_over_before_closes_nobody() {
    for released in [false, true] {
        let fleet = Fleet::started().await;
        let builder = fleet.service().ttl(if released { HOUR * 24 } else { HOUR });
        let lease = builder.renew(released).build().unwrap().try_acquire(&resource()).await;
        match released {
            true => drop(lease.unwrap().release().await.unwrap()),
            false => drop(lease.unwrap().lost().await),
        }
        sleep(if released { HOUR } else { MINUTE }).await;
        fleet.nodes[1].flush();
        let closed = closed(&fleet.connected_to(2).await).await;
        let most = if released { MINUTE * 9 / 8 } else { Duration::ZERO };
        assert!(closed.iter().all(|left| *left <= most), "released {released}: {closed:?}");
    }
}
