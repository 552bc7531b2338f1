//! The searches of every run of the suite, and the long one.

use crate::model::check::run;
use crate::model::state::Budget;
use crate::model::world::{Action, World};

const CALM: Budget =
    Budget { losses: 0, rollbacks: 0, repeats: 0, collections: 0, seconds: 0, renewals: false };

#[test]
fn two_clients_and_two_losses() {
    let budget = Budget { losses: 2, ..CALM };
    run("two losses", World::<3, 2, 2>::new(budget, None), None);
}

#[test]
fn two_clients_and_a_loss_of_any_kind() {
    let budget = Budget { losses: 1, rollbacks: 1, ..CALM };
    let mut world = World::<3, 2, 1>::new(budget, None);
    world.crashes = true;
    run("a crash, a flush or an older state", world, None);
}

#[test]
fn two_clients_and_a_repeated_request() {
    let budget = Budget { losses: 1, repeats: 1, ..CALM };
    run("a loss and a repeated request", World::<3, 2, 1>::new(budget, None), None);
}

#[test]
fn two_clients_and_a_collection() {
    let collection = Budget { collections: 1, ..CALM };
    let mut world = World::<3, 2, 2>::new(collection, None);
    world.clock = 100;
    run("a collection", world, None);
    let budget = Budget { losses: 1, ..collection };
    let mut world = World::<3, 2, 1>::new(budget, None);
    world.clock = 100;
    run("a loss or a collection", world, None);
}

#[test]
fn two_clients_that_renew() {
    let renewals = Budget { renewals: true, ..CALM };
    let mut world = World::<3, 2, 0>::new(renewals, None);
    world.prompt = true;
    run("renewals, requests in time", world, None);
    run("renewals", World::<3, 2, 0>::new(renewals, None), None);
    let budget = Budget { losses: 1, ..renewals };
    run("renewals and a loss", World::<3, 2, 1>::new(budget, None), Some(2_000_000));
}

/// Each way in which clients of both modes may follow one another.
#[test]
fn clients_that_share_the_lock() {
    for shared in [0b01, 0b10] {
        let budget = Budget { losses: 1, ..CALM };
        let mut world = World::<3, 2, 1>::new(budget, None);
        world.seam.shared = shared;
        run(&format!("shared {shared:02b}, a loss"), world, None);
    }
    for shared in [0b011, 0b101, 0b110] {
        let mut world = World::<3, 3, 0>::new(CALM, None);
        world.seam.shared = shared;
        run(&format!("shared {shared:03b}"), world, Some(long().unwrap_or(1_000_000)));
    }
}

/// The first client holds the lock alone. Two others share it, and the one renews its lease.
#[test]
fn clients_that_share_the_lock_and_renew() {
    let renewals = Budget { renewals: true, ..CALM };
    let mut world = World::<3, 3, 0>::new(renewals, None);
    world.seam.shared = 0b110;
    world.lead = vec![
        Action::Acquire { client: 0, node: 0 },
        Action::Acquire { client: 0, node: 1 },
        Action::Deliver { client: 0, node: 0 },
        Action::Deliver { client: 0, node: 1 },
    ];
    run("shared, renewals", world, Some(long().unwrap_or(3_000_000)));
}

#[test]
fn two_clients_on_a_fleet_that_never_started() {
    let budget = Budget { seconds: 1, ..CALM };
    let mut world = World::<3, 2, 2>::new(budget, None);
    world.blank = true;
    world.clock = 1;
    run("first start", world, Some(3_000_000));
}

/// How many states a long search may generate, if one is asked for.
pub fn long() -> Option<usize> {
    let states = std::env::var("FENCING_MODEL_STATES").ok()?;
    Some(states.parse().expect("FENCING_MODEL_STATES is a number"))
}

/// With `FENCING_MODEL_STATES` until so many states have been generated.
#[test]
fn three_clients_and_one_loss() {
    let budget = Budget { losses: 1, ..CALM };
    match long() {
        Some(states) => run("long", World::<3, 3, 2>::new(budget, None), Some(states)),
        None => run("three clients", World::<3, 3, 1>::new(budget, None), Some(4_000_000)),
    }
}

#[test]
fn five_nodes_that_are_brought_back() {
    let budget = Budget { losses: 3, ..CALM };
    match long() {
        Some(_) => run("three losses, nobody locks", World::<5, 0, 3>::new(budget, None), None),
        None => {
            let budget = Budget { losses: 2, ..CALM };
            run("two losses, nobody locks", World::<5, 0, 3>::new(budget, None), None);
        }
    }
}

#[test]
fn five_nodes() {
    run("five nodes", World::<5, 2, 0>::new(CALM, None), None);
    let budget = Budget { losses: 1, ..CALM };
    let mut world = World::<5, 2, 1>::new(budget, None);
    // Too deep to be reached otherwise: a node has forgotten, and somebody prepares it.
    world.lead = vec![Action::Flush { node: 0 }];
    world.lead.push(Action::Prepare { who: 0, node: 0, collect: false });
    run("five nodes and a loss", world, Some(3_000_000));
}

/// Node 0 has forgotten. Nodes 1 and 2 have promised an era to it, forgotten that, and come back.
/// The promise is not confirmed; another re-admission is, and an attempt is won.
#[test]
fn five_nodes_and_forgotten_promises() {
    let readmit = |who, nodes: &[u8]| {
        nodes.iter().map(|node| Action::Readmit { who, node: *node }).collect::<Vec<_>>()
    };
    let lose =
        |who, node| vec![Action::Flush { node }, Action::Prepare { who, node, collect: false }];
    let whole = |who, node, others: &[u8]| {
        [lose(who, node), readmit(who, others), readmit(who, others), readmit(who, &[node])]
            .concat()
    };
    let budget = Budget { losses: 4, ..CALM };
    let mut world = World::<5, 2, 5>::new(budget, None);
    world.lead = [
        lose(0, 0),
        readmit(0, &[1, 2, 3, 1]),
        whole(1, 1, &[2, 3, 4]),
        readmit(0, &[2]),
        whole(2, 2, &[1, 3, 4]),
        readmit(0, &[3]),
        vec![Action::Prepare { who: 3, node: 0, collect: false }],
        readmit(3, &[1, 3, 4, 1, 3, 4, 0]),
        [0, 3, 4].map(|node| Action::Acquire { client: 0, node }).to_vec(),
        [0, 3, 4].map(|node| Action::Deliver { client: 0, node }).to_vec(),
        [3, 4].map(|node| Action::Publish { client: 0, node }).to_vec(),
    ]
    .concat();
    run("five nodes, promises forgotten", world, Some(long().unwrap_or(3_000_000)));
}
