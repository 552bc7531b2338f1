//! The searches of every run of the suite, and the long ones: clients that lock, and then first starts and moves, with
//! a node that forgets, without attempts.

use crate::model::check::{run, search};
use crate::model::lists::Lists;
use crate::model::script::{actions, steps};
use crate::model::state::Budget;
use crate::model::world::World;

const CALM: Budget = Budget { losses: 0, rollbacks: 0, repeats: 0, collections: 0, seconds: 0, renewals: false };

fn with<const N: usize, const C: usize, const R: usize>(budget: Budget) -> World<N, C, R> {
    World::new(budget, None)
}

#[test]
fn two_clients_and_two_losses() {
    run::<3, 2, 2>("two losses", with(Budget { losses: 2, ..CALM }), None);
}

#[test]
fn two_clients_and_a_loss_of_any_kind() {
    let world = with(Budget { losses: 1, rollbacks: 1, ..CALM });
    let world = World::<3, 2, 1> { crashes: true, ..world };
    run("a crash, a flush or an older state", world, None);
}

#[test]
fn two_clients_and_a_repeated_request() {
    let world = with::<3, 2, 1>(Budget { losses: 1, repeats: 1, ..CALM });
    run("a loss and a repeated request", world, None);
}

#[test]
fn two_clients_and_a_collection() {
    let collection = Budget { collections: 1, ..CALM };
    run("a collection", World::<3, 2, 2> { clock: 100, ..with(collection) }, None);
    let world = with(Budget { losses: 1, ..collection });
    run("a loss or a collection", World::<3, 2, 1> { clock: 100, ..world }, None);
}

#[test]
fn two_clients_that_renew() {
    let renewals = Budget { renewals: true, ..CALM };
    let prompt = World::<3, 2, 0> { prompt: true, ..with(renewals) };
    run("renewals, requests in time", prompt, None);
    run("renewals", with::<3, 2, 0>(renewals), None);
    let world = with::<3, 2, 1>(Budget { losses: 1, ..renewals });
    run("renewals and a loss", world, Some(2_000_000));
}

/// Each way in which clients of both modes may follow one another.
#[test]
fn clients_that_share_the_lock() {
    for shared in [0b01, 0b10] {
        let mut world = with::<3, 2, 1>(Budget { losses: 1, ..CALM });
        world.seam.shared = shared;
        run(&format!("shared {shared:02b}, a loss"), world, None);
    }
    for shared in [0b011, 0b101, 0b110] {
        let mut world = with::<3, 3, 0>(CALM);
        world.seam.shared = shared;
        run(&format!("shared {shared:03b}"), world, Some(long().unwrap_or(1_000_000)));
    }
}

/// The first client holds the lock alone. Two others share it, and the one renews its lease.
#[test]
fn clients_that_share_the_lock_and_renew() {
    let mut world = with::<3, 3, 0>(Budget { renewals: true, ..CALM });
    world.seam.shared = 0b110;
    world.lead = actions("acquire 0@01, deliver 0@01");
    run("shared, renewals", world, Some(long().unwrap_or(3_000_000)));
}

#[test]
fn two_clients_on_a_fleet_that_never_started() {
    let world = with(Budget { seconds: 1, ..CALM });
    let world = World::<3, 2, 2> { blank: true, clock: 1, ..world };
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
        Some(states) => run("long", with::<3, 3, 2>(budget), Some(states)),
        None => run("three clients", with::<3, 3, 1>(budget), Some(4_000_000)),
    }
}

#[test]
fn five_nodes_that_are_brought_back() {
    let losses = if long().is_some() { 3 } else { 2 };
    let world = with::<5, 0, 3>(Budget { losses, ..CALM });
    run(&format!("{losses} losses, nobody locks"), world, None);
}

#[test]
fn five_nodes() {
    run("five nodes", with::<5, 2, 0>(CALM), None);
    let world = with(Budget { losses: 1, ..CALM });
    // Too deep to be reached otherwise: a node has forgotten, and somebody prepares it.
    let world = World::<5, 2, 1> { lead: actions("flush@0, prepare 0@0"), ..world };
    run("five nodes and a loss", world, Some(3_000_000));
}

/// Node 0 has forgotten. Nodes 1 and 2 have promised an era to it, forgotten that, and come back.
/// The promise is not confirmed; another re-admission is, and an attempt is won.
#[test]
fn five_nodes_and_forgotten_promises() {
    let lead = "flush@0, prepare 0@0, readmit 0@123, giveup 0@4, readmit 0@1, flush@1, prepare 1@1, \
        readmit 1@234, giveup 1@0, readmit 1@234, giveup 1@0, readmit 1@1, readmit 0@2, flush@2, prepare 2@2, \
        readmit 2@134, giveup 2@0, readmit 2@134, giveup 2@0, readmit 2@2, readmit 0@3, giveup 0@4, \
        prepare 3@0, readmit 3@134, giveup 3@2, readmit 3@134, giveup 3@2, readmit 3@0, \
        acquire 0@034, deliver 0@034, publish 0@34";
    let world = with(Budget { losses: 4, ..CALM });
    let world = World::<5, 2, 5> { lead: actions(lead), ..world };
    run("five nodes, promises forgotten", world, Some(long().unwrap_or(3_000_000)));
}

#[test]
fn two_first_starts() {
    fn world<const M: usize>() -> Lists<3, M> {
        Lists { starters: 2, ..Lists::new(&[], &[0, 1, 2], None) }
    }
    search("two first starts", world::<2>(), None);
    if let Some(limit) = long() {
        let hasty = Lists { patience: 1, ..world::<2>() };
        search("two first starts, a request given up", hasty, Some(limit));
        search("two first starts and a re-admission", world::<3>(), Some(limit));
    }
}

#[test]
fn two_movers_from_one_node() {
    let world = || Lists::<4, 2> { movers: 2, ..Lists::new(&[0], &[1, 2, 3], None) };
    let small = Lists { blank_losses: false, ..world() };
    search("a to b, c, d; who was admitted forgets", small, None);
    if let Some(limit) = long() {
        search("a to b, c, d", world(), Some(limit));
    }
}

/// Both have sealed the old list. One has the promise there, the other has marked nothing yet.
#[test]
fn two_movers_to_a_list_that_overlaps() {
    let lead = steps("run 0@013012013013012012, run 1@013012");
    let world = Lists::new(&[0, 1, 2], &[0, 1, 3], None);
    let world = Lists::<4, 3> { movers: 2, lead, ..world };
    search("a, b, c to a, b, d", world, Some(long().unwrap_or(4_000_000)));
}
