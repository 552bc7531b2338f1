//! How long a node that forgot stays closed: until no lock can be out that it knew of. Also where a client said that no
//! lock can be held, or has an old list of nodes. And counts that pile up on one node, seen by many clients.

use fencing_protocol::CROWDED;
use futures_util::future::join_all;
use support::waiting::until;
use tokio::sync::Barrier;

use crate::driver::fleet::*;

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

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
    drop(redlock.with_ttl(HOUR).unwrap());
    fleet.nodes.iter().for_each(|node| node.restart());
    let closed_for = closed(&redlock).await;
    assert!(closed_for.iter().all(|left| *left > HOUR - MINUTE && *left <= HOUR), "{closed_for:?}");
}

/// It may have granted a lock before, however long others are up. The lock-delay counts, also if an operator starts it.
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

/// A lease of an hour is out, and clients with a short TTL bring a node back. A renewed one counts from its renewal.
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

#[tokio::test(start_paused = true)]
async fn a_first_start_is_vouched_for_once() {
    for count in [1, 3] {
        let clock = TokioClock::new();
        let node = |number: usize| MemoryNode::with_clock(format!("{number}"), clock.clone());
        let nodes: Vec<MemoryNode> = (0..count).map(node).collect();
        let service = |first: bool| {
            let builder = Redlock::builder().nodes(nodes.clone()).clock(clock.clone());
            builder.first_start(first).wait(Duration::from_secs(60)).build().unwrap()
        };
        let (first, other) = (service(true), service(false));
        let resource = resource();
        let lease = first.acquire(&resource).await.unwrap();
        nodes.iter().for_each(MemoryNode::restart);
        // The client that has the lease sees the blank nodes first.
        assert!(first.try_acquire(&named("other")).await.is_err());
        let next = other.acquire(&resource).await.unwrap();
        assert!(lease.valid_for().is_zero(), "{count} nodes: two leases are valid at once");
        assert!(next.token() > lease.token());
    }
}

/// The client of the old list [a] sees the blank node first. The fleet [a, b, c] brings it back before that starts it.
#[tokio::test(start_paused = true)]
async fn a_stale_client_does_not_start_a_node_that_its_fleet_brings_back() {
    let clock = TokioClock::new();
    let nodes = ["a", "b", "c"].map(|name| MemoryNode::with_clock(name, clock.clone()));
    let service = |nodes: &[MemoryNode]| {
        let builder = Redlock::builder().nodes(nodes.to_vec()).clock(clock.clone());
        builder.ttl(Duration::from_secs(1)).build().unwrap()
    };
    let (old, new) = (service(&nodes[..1]), service(&nodes));
    let resource = resource();
    old.acquire(&resource).await.unwrap().release().await.unwrap();
    old.operator().move_to(&new).await.unwrap();
    new.acquire(&resource).await.unwrap().release().await.unwrap();

    nodes[0].restart();
    assert!(old.try_acquire(&resource).await.is_err());
    let _ = new.try_acquire(&resource).await;
    sleep(Duration::from_secs(10)).await;
    assert!(old.try_acquire(&resource).await.is_err(), "the old list is in use again");
    assert_eq!(new.health().await.granting, 3);
}

/// The first requests of a lock service come at one time, from several threads.
async fn first_use(round: usize) {
    let nodes = (0..5).map(|number| MemoryNode::new(format!("node {number}")));
    let [ttl, budget, wait] = [2, 1, 60].map(Duration::from_secs);
    let redlock = Redlock::builder().nodes(nodes).ttl(ttl).node_budget(budget).wait(wait).build().unwrap();
    let start = Arc::new(Barrier::new(8));
    let first = (0..8).map(|number| {
        let (redlock, start) = (redlock.clone(), Arc::clone(&start));
        tokio::spawn(async move {
            let resource = named(&format!("files/{number}"));
            start.wait().await;
            // A fleet that starts may refuse.
            drop(redlock.try_acquire(&resource).await);
        })
    });
    try_join_all(first).await.unwrap();
    let lease = redlock.acquire(&resource()).await;
    drop(lease.unwrap_or_else(|error| panic!("round {round}: {error}")));
    // The last node's quarantine ends a moment after those of a majority.
    until("every node serves", async || redlock.health().await.causes.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_node_serves_after_its_first_use() {
    // Each waits for its quarantine: all at one time.
    join_all((0..10).map(first_use)).await;
}

const CLIENTS: u64 = 20;
/// How long each answer takes, and how long after one client the next one comes.
const DELAY: Duration = Duration::from_millis(10);

/// A client with a network of its own.
async fn client(fleet: &Fleet) -> Redlock {
    let nodes: Vec<_> = fleet.nodes.iter().cloned().map(FaultyNode::new).collect();
    nodes.iter().for_each(|node| node.faults().delay_replies(DELAY));
    let redlock = fleet.settings().nodes(nodes).build().unwrap();
    assert_eq!(redlock.health().await.granting, 3);
    redlock
}

/// Some look whether the node is crowded before the first has collected, and ask the others for
/// an era after the first has reserved its own: they come with a larger one.
#[tokio::test(start_paused = true)]
async fn a_node_is_collected_once() {
    let fleet = Fleet::started().await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(client(&fleet).await);
    }
    let before = clients[0].health().await.nodes[0].era;
    let session = fleet.nodes[0].open(&members(3), "me").await.unwrap();
    for number in 0..CROWDED {
        let acquire = acquire(&named(&format!("r{number}")), ALICE);
        let reply = ask_alone(&*session, lasting(acquire, Duration::from_millis(1))).await;
        assert!(matches!(reply, Ok(Reply::Granted { .. })), "{reply:?}");
    }
    assert!(clients[0].health().await.nodes[0].crowded);
    let mut attempts = Vec::new();
    for (client, number) in clients.iter().cloned().zip(0_u64..) {
        let resource = named(&format!("race/{number}"));
        attempts.push(tokio::spawn(async move { client.acquire(&resource).await }));
        sleep(DELAY).await;
    }
    for attempt in attempts {
        attempt.await.unwrap().unwrap().release().await.unwrap();
    }
    sleep(Duration::from_secs(2)).await;
    let health = clients[0].health().await;
    assert_eq!(health.granting, 3, "it grants on: {health:?}");
    assert_eq!(health.nodes[0].era, before + 1);
    assert!(health.nodes.iter().all(|node| node.era <= before + 1), "{health:?}");
    assert!(health.nodes[0].counts < 100 && !health.nodes[0].crowded, "{health:?}");
}

/// Another client has brought the nodes back since the last try of this one failed.
#[tokio::test(start_paused = true)]
async fn what_kept_a_node_from_coming_back_long_ago_is_no_cause_now() {
    let (fleet, redlock) = Fleet::with_client(3).await;
    let not_started = Fault::NotStarted { missing: vec!["node-2".into()] };
    let causes = async || redlock.health().await.causes.into_iter().map(|it| it.cause).collect::<Vec<_>>();
    fleet.nodes.iter().for_each(|node| node.stop());
    fleet.nodes[..2].iter().for_each(|node| node.start());
    while causes().await[..2] != [not_started.clone(), not_started.clone()] {
        sleep(RETRY).await;
    }
    redlock.settle().await;
    fleet.nodes[2].start();
    fleet.past_the_faults().build().unwrap().acquire(&resource()).await.unwrap().release().await.unwrap();
    sleep(MINUTE).await;
    fleet.nodes.iter().for_each(|node| node.restart());
    let now = loop {
        let now = causes().await;
        if now.iter().all(|cause| matches!(cause, Fault::NotAdmitted | Fault::NotStarted { .. })) {
            break now;
        }
        sleep(Duration::from_millis(1)).await;
    };
    assert!(now.len() == 3 && !now.contains(&not_started), "{now:?}");
}
