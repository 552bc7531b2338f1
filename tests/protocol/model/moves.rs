//! First starts and moves, with a node that forgets: searched without attempts.

use crate::model::check::search;
use crate::model::lists::Lists;
use crate::model::runs::long;
use crate::model::script::steps;

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
