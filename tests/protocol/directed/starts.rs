//! Two clients start a fleet at one time.

use std::time::Duration;

use fencing_protocol::majority;

use crate::directed::world::{TTL, World};

/// The one that dies has the larger era, and one node heard of it. That node forgets, and must
/// not be given the era once more.
#[test]
fn an_era_of_a_start_that_was_given_up_is_not_given_out_twice() {
    for nodes in [3, 5, 7] {
        let mut world = World::blank(nodes);
        let fleet: Vec<usize> = (0..nodes).collect();
        let half = majority(nodes);
        let mut slow = world.readmit(&fleet, 0);
        slow.until_activation(&mut world);
        // The clocks go on in between.
        world.wait(Duration::from_secs(1));
        let mut dies = world.readmit(&fleet, 0);
        dies.until_activation(&mut world);
        dies.at(&mut world, 0);
        slow.all(&mut world);
        world.wait(TTL * 2);
        let mut first = world.attempt(&fleet);
        first.heard_by(&mut world, &fleet[..half]);
        world.forget(0);
        world.bring_back(&fleet, 0, &fleet[1..=half]);
        first.heard_by(&mut world, &fleet[..half]);
        let first = first.token(&world);
        world.wait(TTL * 3);
        let others = [&fleet[..1], &fleet[nodes + 1 - half..]].concat();
        let second = world.lease(&fleet, &others);
        assert!(second.is_some() && second > first, "{nodes}: {second:?} after {first:?}");
    }
}

/// A slow start marks a node late: another client has started that node in a larger era in
/// between, and it has forgotten that. Its clock is behind, and says nothing of that era.
#[test]
fn a_start_reads_after_every_node_was_marked() {
    let mut world = World::blank(3);
    let fleet = [0, 1, 2];
    world.set_behind(2, TTL * 50);
    let mut slow = world.readmit(&fleet, 0);
    slow.heard_by(&mut world, &fleet);
    slow.heard_by(&mut world, &[0, 1]);
    world.wait(TTL);
    let mut other = world.readmit(&fleet, 0);
    other.until_activation(&mut world);
    other.heard_by(&mut world, &[0, 2]);
    world.wait(TTL * 2);
    let last = (0..3).map(|_| world.lease(&fleet, &[0, 2])).max().unwrap();
    world.forget(2);
    slow.all(&mut world);
    world.wait(TTL * 2);
    world.readmit(&fleet, 1).all(&mut world);
    world.readmit(&fleet, 2).all(&mut world);
    world.wait(TTL * 2);
    let next = world.lease(&fleet, &[1, 2]);
    assert!(last.is_some() && next > last, "{next:?} after {last:?}");
}
