//! The searches of every run of the suite, and the long one.

use crate::check::run;
use crate::state::Budget;
use crate::world::{Action, World};

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
    run("a collection", World::<3, 2, 2>::new(collection, None), None);
    let budget = Budget { losses: 1, ..collection };
    run("a loss or a collection", World::<3, 2, 1>::new(budget, None), None);
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

#[test]
fn two_clients_on_a_fleet_that_never_started() {
    let budget = Budget { seconds: 1, ..CALM };
    let mut world = World::<3, 2, 2>::new(budget, None);
    world.blank = true;
    run("first start", world, Some(3_000_000));
}

/// With `FENCING_MODEL_STATES` until so many states have been generated.
#[test]
fn three_clients_and_one_loss() {
    let budget = Budget { losses: 1, ..CALM };
    let long = std::env::var("FENCING_MODEL_STATES").ok();
    match long.map(|states| states.parse().expect("FENCING_MODEL_STATES is a number")) {
        Some(states) => run("long", World::<3, 3, 2>::new(budget, None), Some(states)),
        None => run("three clients", World::<3, 3, 1>::new(budget, None), Some(4_000_000)),
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
