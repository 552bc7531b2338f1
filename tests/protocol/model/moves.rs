//! First starts and moves, with a node that forgets: searched without attempts.

use crate::model::check::search;
use crate::model::lists::{Lists, Step};
use crate::model::runs::long;

#[test]
fn two_first_starts() {
    let mut world = Lists::<3, 2>::new(&[], &[0, 1, 2], None);
    world.starters = 2;
    search("two first starts", world, None);
    if let Some(limit) = long() {
        let mut world = Lists::<3, 2>::new(&[], &[0, 1, 2], None);
        (world.starters, world.patience) = (2, 1);
        search("two first starts, a request given up", world, Some(limit));
        let mut world = Lists::<3, 3>::new(&[], &[0, 1, 2], None);
        world.starters = 2;
        search("two first starts and a re-admission", world, Some(limit));
    }
}

#[test]
fn two_movers_from_one_node() {
    let world = || {
        let mut world = Lists::<4, 2>::new(&[0], &[1, 2, 3], None);
        world.movers = 2;
        world
    };
    let mut small = world();
    small.blank_losses = false;
    search("a to b, c, d; who was admitted forgets", small, None);
    if let Some(limit) = long() {
        search("a to b, c, d", world(), Some(limit));
    }
}

/// Both have sealed the old list. One has the promise there, the other has marked nothing yet.
#[test]
fn two_movers_to_a_list_that_overlaps() {
    let mut world = Lists::<4, 3>::new(&[0, 1, 2], &[0, 1, 3], None);
    world.movers = 2;
    let round = |who, servers: [u8; 3]| servers.map(|server| Step::Run { who, server });
    let (old, new) = ([0, 1, 2], [0, 1, 3]);
    let slow = [new, old].map(|servers| round(1, servers));
    let fast = [new, old, new, new, old, old].map(|servers| round(0, servers));
    world.lead = [fast.concat(), slow.concat()].concat();
    search("a, b, c to a, b, d", world, Some(long().unwrap_or(4_000_000)));
}
